//! The value cannot be stored.

#[path = "../common.rs"] mod common;
use common::*;

pub struct Shipped;

#[idempotent(scope = source, key = message.id)]
async fn handle(tx: &mut PgConnection, source: &str, message: &Message) -> Result<Shipped, sqlx::Error> {
    let _ = (tx, source, message);
    Ok(Shipped)
}

async fn deliver(idempotency: &Idempotency<Postgres>, message: &Message) {
    let _ = handle(idempotency, "orders", message).await;
}

fn main() {
    let _ = deliver;
}
