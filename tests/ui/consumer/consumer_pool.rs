//! What is written through a pool is outside the transaction.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = source, key = message.id)]
async fn handle(tx: &mut PgConnection, pool: &PgPool, source: &str, message: &Message) -> Result<u64, sqlx::Error> {
    let _ = (tx, pool, source, message);
    Ok(1)
}

async fn deliver(idempotency: &Idempotency<Postgres>, pool: &PgPool, message: &Message) {
    let _ = handle(idempotency, pool, "orders", message).await;
}

fn main() {
    let _ = deliver;
}
