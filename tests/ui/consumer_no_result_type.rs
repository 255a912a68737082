//! A type of the user's is returned, which could be a `Result` by another name.

mod common;
use common::*;

#[idempotent(scope = source, key = message.id)]
async fn handle(tx: &mut PgConnection, source: &str, message: &Message) -> StatusCode {
    let _ = (tx, source, message);
    StatusCode::OK
}

async fn deliver(idempotency: &Idempotency<Postgres>, message: &Message) {
    let _ = handle(idempotency, "orders", message).await;
}

fn main() {
    let _ = deliver;
}
