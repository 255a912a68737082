//! One handler for each sender. `Db` and `Connection` are sqlx's `Sqlite` and `SqliteConnection`, the default database.
//! `main.rs` also compiles this file for PostgreSQL. Your code names one database.

use axum::{
    Json, Router,
    extract::{FromRef, Path, State},
    http::StatusCode,
    routing::{get, post},
};
use idem_runtime::{Idempotency, idempotent};
use scaffold::{
    error::{AppError, Refusal},
    program::Outcome,
    server::Service,
};
use serde_json::{Value, json};
use sqlx::Pool;

use super::{Connection, Db};
use crate::verify::{Credit, Secrets, Standard, Stripe, Verified};

/// The state. Annotated handlers take parts of it, never the pool: a write through the pool is outside the transaction.
#[derive(Clone, FromRef)]
struct App {
    idempotency: Idempotency<Db>,
    pool: Pool<Db>,
    secrets: Secrets,
}

/// After a 5xx the sender delivers the event again. idem has rolled everything back, so that delivery runs.
const NO_ACCOUNT: Refusal =
    Refusal { status: StatusCode::SERVICE_UNAVAILABLE, code: "no-account", message: "the account does not exist yet" };

pub(crate) async fn open(pool: Pool<Db>, secrets: Secrets) -> Outcome<Service<Db>> {
    let idempotency = Idempotency::builder(pool.clone()).build();
    idempotency.migrate().await?;
    let router = Router::new()
        .route("/webhooks/standard", post(standard))
        .route("/webhooks/stripe", post(stripe))
        .route("/accounts/{name}", get(show_account).post(open_account))
        .with_state(App { idempotency: idempotency.clone(), pool: pool.clone(), secrets });
    Ok(Service { router, idempotency, pool, recovery: None })
}

/// Events of a sender that follows Standard Webhooks. The event's id is in a header.
///
/// The extractor verifies the signature before idem uses the id, so a forged event cannot consume an id.
#[idempotent(webhook, scope = provider, key = id, retention = "7d")]
async fn standard(
    Verified { provider, id, credit, .. }: Verified<Standard>,
    tx: &mut Connection,
) -> Result<StatusCode, AppError> {
    handle(credit, tx).await
}

/// Stripe's events. The event's id is in the body. Stripe delivers an event for up to three days.
#[idempotent(webhook, scope = provider, key = id, retention = "7d")]
async fn stripe(
    Verified { provider, id, credit, .. }: Verified<Stripe>,
    tx: &mut Connection,
) -> Result<StatusCode, AppError> {
    handle(credit, tx).await
}

/// Adds the credit to its account. An event without a credit is acknowledged and has no effect.
async fn handle(credit: Option<Credit>, tx: &mut Connection) -> Result<StatusCode, AppError> {
    if let Some(Credit { account, amount }) = credit {
        let update = sqlx::query("UPDATE accounts SET balance = balance + $1 WHERE name = $2");
        if update.bind(amount).bind(account).execute(tx).await?.rows_affected() == 0 {
            return Err(NO_ACCOUNT.into());
        }
    }
    Ok(StatusCode::NO_CONTENT)
}

async fn open_account(State(pool): State<Pool<Db>>, Path(name): Path<String>) -> Result<StatusCode, AppError> {
    sqlx::query("INSERT INTO accounts (name, balance) VALUES ($1, 0)").bind(name).execute(&pool).await?;
    Ok(StatusCode::CREATED)
}

async fn show_account(State(pool): State<Pool<Db>>, Path(name): Path<String>) -> Result<Json<Value>, AppError> {
    let select = sqlx::query_scalar("SELECT balance FROM accounts WHERE name = $1");
    let balance: Option<i64> = select.bind(name).fetch_optional(&pool).await?;
    Ok(Json(json!({ "balance": balance.ok_or(NO_ACCOUNT)? })))
}
