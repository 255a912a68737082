//! A type that is no extractor: axum says so at the parameter.

#[path = "../common.rs"] mod common;
use common::*;

pub struct Cart;

#[idempotent(scope = account)]
#[debug_handler(state = App)]
async fn pay(tx: &mut PgConnection, cart: Cart, account: Account) -> StatusCode {
    let _ = (tx, cart, account);
    StatusCode::OK
}

fn main() {}
