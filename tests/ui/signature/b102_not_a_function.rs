//! On a struct.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = account)]
struct Pay {
    amount: i64,
}

fn main() {
    let _ = Pay { amount: 1 }.amount;
}
