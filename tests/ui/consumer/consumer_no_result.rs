//! Nothing is returned.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = source, key = message.id)]
async fn handle(tx: &mut PgConnection, source: &str, message: &Message) {
    let _ = (tx, source, message);
}

async fn deliver(idempotency: &Idempotency<Postgres>, message: &Message) {
    let _ = handle(idempotency, "orders", message).await;
}

fn main() {
    let _ = deliver;
}
