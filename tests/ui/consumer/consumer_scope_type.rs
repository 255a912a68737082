//! The source is no `Scope`.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = source, key = message.id)]
async fn handle(tx: &mut PgConnection, source: u64, message: &Message) -> Result<u64, sqlx::Error> {
    let _ = (tx, source, message);
    Ok(1)
}

async fn deliver(idempotency: &Idempotency<Postgres>, message: &Message) {
    let _ = handle(idempotency, 1, message).await;
}

fn main() {
    let _ = deliver;
}
