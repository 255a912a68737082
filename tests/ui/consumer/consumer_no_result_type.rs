//! A type of the user's is returned, which could be a `Result` by another name.

#[path = "../common.rs"] mod common;
use common::*;

pub struct Shipped;

#[idempotent(scope = source, key = message.id)]
async fn handle(tx: &mut PgConnection, source: &str, message: &Message) -> Shipped {
    let _ = (tx, source, message);
    Shipped
}

fn main() {}
