//! The value cannot be stored.

mod common;
use common::*;

#[idempotent(scope = source, key = message.id)]
async fn handle(tx: &mut PgConnection, source: &str, message: &Message) -> Result<StatusCode, sqlx::Error> {
    let _ = (tx, source, message);
    Ok(StatusCode::OK)
}

async fn deliver(idempotency: &Idempotency<Postgres>, message: &Message) {
    let _ = handle(idempotency, "orders", message).await;
}

fn main() {
    let _ = deliver;
}
