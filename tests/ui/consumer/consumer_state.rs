//! An extractor that is axum's: `webhook` was forgotten.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = source, key = message.id)]
async fn handle(tx: &mut PgConnection, State(source): State<Account>, message: Message) -> Result<u64, sqlx::Error> {
    let _ = (tx, source, message);
    Ok(1)
}

async fn deliver(idempotency: &Idempotency<Postgres>, message: &Message) {
    let _ = handle(idempotency, State(Account { id: 1 }), message.clone()).await;
}

fn main() {
    let _ = deliver;
}
