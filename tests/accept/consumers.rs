//! Consumers: plain functions that run once for each message.
//! What they do is tested where the runtime is; here, that they are accepted.

use idem_runtime::{Idempotency, NotDone, Once, idempotent};
use sqlx::{PgConnection, Postgres};

struct Message {
    id: String,
    body: Vec<u8>,
}

#[idempotent(scope = source, key = message.id)]
async fn smallest(tx: &mut PgConnection, source: &str, message: &Message) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("SELECT $1::bigint").bind(i64::try_from(message.body.len()).unwrap_or_default()).fetch_one(tx).await
}

async fn called(idempotency: &Idempotency<Postgres>, message: &Message) -> Result<Once<i64>, NotDone<sqlx::Error>> {
    smallest(idempotency, "orders", message).await
}
