//! What an application writes: a handler for each sender's events. `Connection` is `SqliteConnection` in `sqlite.rs`,
//! `PgConnection` in `postgres.rs`: the example runs on both, your own code names one.

use axum::{
    Json, Router,
    extract::{FromRef, Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use idem_runtime::{Idempotency, idempotent};
use serde_json::{Value, json};
use sqlx::Pool;

use super::{Connection, Db};
use crate::{
    Outcome,
    verify::{Credit, Secrets, Standard, Stripe, Verified},
};

/// The application's state.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) idempotency: Idempotency<Db>,
    pub(crate) pool: Pool<Db>,
    secrets: Secrets,
}

impl FromRef<App> for Idempotency<Db> {
    fn from_ref(app: &App) -> Self {
        app.idempotency.clone()
    }
}

impl FromRef<App> for Secrets {
    fn from_ref(app: &App) -> Self {
        app.secrets.clone()
    }
}

#[derive(Debug, thiserror::Error)]
enum AppError {
    #[error("the account is not known yet")]
    NoAccount,
    #[error("the database failed")]
    Database(#[from] sqlx::Error),
}

/// Any 5xx has the event sent again; idem has rolled everything back, so that it runs then.
impl IntoResponse for AppError {
    fn into_response(self) -> Response {
        tracing::warn!(error = &self as &dyn std::error::Error, "an event was not handled");
        StatusCode::SERVICE_UNAVAILABLE.into_response()
    }
}

/// Events of a sender that follows Standard Webhooks, whose id is a header of its own.
///
/// The signature is verified by the extractor, before anything looks at the id: who cannot sign burns none.
#[idempotent(webhook, scope = provider, key = id, retention = "7d")]
async fn standard(
    Verified { provider, id, credit, .. }: Verified<Standard>,
    tx: &mut Connection,
) -> Result<StatusCode, AppError> {
    handle(credit, tx).await
}

/// Stripe's events, whose id is in them. They are sent for up to three days.
#[idempotent(webhook, scope = provider, key = id, retention = "7d")]
async fn stripe(
    Verified { provider, id, credit, .. }: Verified<Stripe>,
    tx: &mut Connection,
) -> Result<StatusCode, AppError> {
    handle(credit, tx).await
}

/// Adds to an account; what else there is to know about is acknowledged, and nothing done.
async fn handle(credit: Option<Credit>, tx: &mut Connection) -> Result<StatusCode, AppError> {
    if let Some(Credit { account, amount }) = credit {
        let update = sqlx::query("UPDATE accounts SET balance = balance + $1 WHERE name = $2");
        let updated = update.bind(amount).bind(account).execute(tx).await?.rows_affected();
        if updated == 0 {
            return Err(AppError::NoAccount);
        }
    }
    Ok(StatusCode::NO_CONTENT)
}

async fn open_account(State(app): State<App>, Path(name): Path<String>) -> Result<StatusCode, AppError> {
    sqlx::query("INSERT INTO accounts (name, balance) VALUES ($1, 0)").bind(name).execute(&app.pool).await?;
    Ok(StatusCode::CREATED)
}

async fn show_account(State(app): State<App>, Path(name): Path<String>) -> Result<Json<Value>, AppError> {
    let balance: Option<i64> =
        sqlx::query_scalar("SELECT balance FROM accounts WHERE name = $1").bind(name).fetch_optional(&app.pool).await?;
    balance.map(|balance| Json(json!({ "balance": balance }))).ok_or(AppError::NoAccount)
}

impl App {
    /// Creates what tables are missing, the application's and idem's.
    pub(crate) async fn open(pool: Pool<Db>, tables: &'static str, secrets: Secrets) -> Outcome<Self> {
        sqlx::raw_sql(tables).execute(&pool).await?;
        let idempotency = Idempotency::builder(pool.clone()).build();
        idempotency.migrate().await?;
        Ok(Self { idempotency, pool, secrets })
    }

    pub(crate) fn router(self) -> Router {
        Router::new()
            .route("/webhooks/standard", post(standard))
            .route("/webhooks/stripe", post(stripe))
            .route("/accounts/{name}", get(show_account).post(open_account))
            .with_state(self)
    }
}
