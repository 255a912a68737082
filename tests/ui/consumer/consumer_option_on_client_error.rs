//! `on_client_error` says nothing of a consumer.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = source, key = message.id, on_client_error = release)]
async fn handle(tx: &mut PgConnection, source: &str, message: &Message) -> Result<u64, sqlx::Error> {
    let _ = (tx, source, message);
    Ok(1)
}

async fn deliver(idempotency: &Idempotency<Postgres>, message: &Message) {
    let _ = handle(idempotency, "orders", message).await;
}

fn main() {
    let _ = deliver;
}
