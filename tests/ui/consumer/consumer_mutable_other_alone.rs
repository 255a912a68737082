//! Something else is `&mut`, and there is no transaction.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = source, key = message.id)]
async fn handle(seen: &mut Vec<String>, source: &str, message: &Message) -> Result<u64, sqlx::Error> {
    let _ = (source, message, seen);
    Ok(1)
}

fn main() {}
