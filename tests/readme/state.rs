//! The state of the README.
//! The block is what follows this header.

use axum::extract::FromRef;
use idem_runtime::Idempotency;
use sqlx::{PgPool, Postgres};

#[derive(Clone, FromRef)]
struct App {
    idempotency: Idempotency<Postgres>,
}

async fn start(pool: PgPool) -> Result<App, idem_runtime::Error> {
    let idempotency = Idempotency::builder(pool).build();
    idempotency.migrate().await?; // the tables `idem_records` and `idem_schema`, beside your own migrations
    Ok(App { idempotency })
}
