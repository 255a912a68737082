//! Something else is `&mut`, beside the transaction and before it.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = source, key = message.id)]
async fn handle(seen: &mut Vec<String>, tx: &mut PgConnection, source: &str, message: &Message) -> Result<u64, sqlx::Error> {
    let _ = (tx, source, message, seen);
    Ok(1)
}

async fn deliver(idempotency: &Idempotency<Postgres>, message: &Message) {
    let _ = handle(idempotency, "orders", message).await;
}

fn main() {
    let _ = deliver;
}
