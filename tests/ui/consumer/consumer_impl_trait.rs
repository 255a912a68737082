//! Nor by `impl`.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = source, key = message.id)]
async fn handle(tx: &mut PgConnection, source: &str, message: &Message, other: impl Send) -> Result<u64, sqlx::Error> {
    let _ = (tx, source, message, other);
    Ok(1)
}

async fn deliver(idempotency: &Idempotency<Postgres>, message: &Message) {
    let _ = handle(idempotency, "orders", message, 1).await;
}

fn main() {
    let _ = deliver;
}
