//! The charges API. `Db` is sqlx's `Sqlite`, the default database. `main.rs` also compiles this file for PostgreSQL.
//! The charge happens outside the database, under a key that every attempt of the same request derives again.

use std::time::Duration;

use axum::{
    Json, Router,
    extract::{FromRef, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::post,
};
use idem_runtime::{Attempt, Idempotency, idempotent};
use scaffold::{account::Account, error::AppError, program::Outcome, runs::Runs, server::Service};
use serde::Serialize;
use serde_json::{Value, json};
use sqlx::{FromRow, Pool};

use super::{
    Db,
    recovery::{ByKey, ByReference},
};
use crate::{
    error::ChargeError,
    network::{Charged, Network, NetworkError},
    request::NewCharge,
};

/// The name of the one step that moves money. The derived key contains it, so it must never change.
pub(super) const CHARGE: &str = "charge";

/// The state. Annotated handlers take parts of it, never the pool: a write through the pool is outside the transaction.
#[derive(Clone, FromRef)]
struct App {
    idempotency: Idempotency<Db>,
    pool: Pool<Db>,
    network: Network,
    runs: Runs,
}

/// The API, and the recovery: one reconciler for each handler with external effects.
pub(crate) async fn open(pool: Pool<Db>, network: Network, recover_every: Duration) -> Outcome<Service<Db>> {
    let idempotency = Idempotency::builder(pool.clone()).build();
    idempotency.migrate().await?;
    let recovery = idempotency
        .recovery()
        .reconciler("create_charge", ByKey(network.clone()))
        .reconciler("create_legacy_charge", ByReference(network.clone()))
        .backoff(Duration::from_secs(1), Duration::from_mins(5))
        // A lookup is fast. If the process dies during a lookup, the record waits about this long.
        .reconcile_timeout(Duration::from_secs(5))
        .run_every(recover_every);
    let app = App { idempotency: idempotency.clone(), pool: pool.clone(), network, runs: Runs::default() };
    let router = Router::new()
        .route("/charges", post(create_charge).get(list_charges))
        .route("/legacy-charges", post(create_legacy_charge))
        .route("/runs", Runs::route())
        .with_state(app);
    Ok(Service { router, idempotency, pool, recovery: Some(recovery) })
}

/// A charge as its account sees it.
#[derive(Serialize, FromRow)]
struct Charge {
    id: String,
    amount: i64,
    currency: String,
    source: String,
}

/// The lease is short to keep the demo short: it costs one renewal a second. The default of 60 seconds costs less and
/// tolerates longer pauses.
///
/// A 5xx leaves the key to the recovery: this process does not know whether the card was charged.
#[idempotent(scope = account, effects = external, lease = "3s", store_request, on_server_error = reconcile)]
async fn create_charge(
    account: Account,
    State(runs): State<Runs>,
    State(network): State<Network>,
    attempt: &mut Attempt<Db>,
    Json(new): Json<NewCharge>,
) -> Result<Response, ChargeError> {
    runs.begin();
    let key = attempt.key(CHARGE).to_string();
    let charged = network.charge(&key, account.as_str(), &new).await?;
    record(attempt, &new, &charged).await
}

/// The same at a network without idempotency keys: look for the charge, then make it.
///
/// **This is weaker, and the application cannot fix it.** The lookup finds only recorded charges. If the charge of a stalled
/// attempt is still in flight at the network, the lookup misses it, and a second charge follows. `ByReference` waits before
/// it believes that there is no charge. That makes a second charge unlikely, not impossible. If a processor offers
/// idempotency keys, use them.
#[idempotent(scope = account, effects = external, lease = "3s", store_request, on_server_error = reconcile)]
async fn create_legacy_charge(
    account: Account,
    State(runs): State<Runs>,
    State(network): State<Network>,
    attempt: &mut Attempt<Db>,
    Json(new): Json<NewCharge>,
) -> Result<Response, ChargeError> {
    runs.begin();
    // This network does not treat it as a key. It only finds charges by it.
    let reference = attempt.key(CHARGE).to_string();
    if let Some(charged) = network.find_by_reference(&reference).await? {
        return record(attempt, &new, &charged).await;
    }
    let charged = match network.charge_without_key(&reference, account.as_str(), &new).await {
        // Do not send it again. If the lookup finds nothing, the charge may be in flight: the recovery looks later.
        Err(error @ NetworkError::Unclear(_)) => network.find_by_reference(&reference).await?.ok_or(error)?,
        result => result?,
    };
    record(attempt, &new, &charged).await
}

/// Writes the charge's row and makes the response. The handlers and the recovery share it. It uses only the request and the
/// network's charge, so both produce the same bytes.
pub(super) async fn record(
    attempt: &mut Attempt<Db>,
    new: &NewCharge,
    charged: &Charged,
) -> Result<Response, ChargeError> {
    if charged.declined() {
        return Err(ChargeError::CardDeclined);
    }
    let transaction = attempt.transaction().await?;
    let insert = "INSERT INTO charges (id, account, amount, currency, source) VALUES ($1, $2, $3, $4, $5) RETURNING *";
    let charge: Charge = sqlx::query_as(insert)
        .bind(&charged.id)
        .bind(&charged.customer)
        .bind(i64::from(new.amount.get()))
        .bind(new.currency.as_str())
        .bind(new.source.as_str())
        .fetch_one(&mut **transaction)
        .await?;
    Ok((StatusCode::CREATED, Json(charge)).into_response())
}

async fn list_charges(account: Account, State(pool): State<Pool<Db>>) -> Result<Json<Value>, AppError> {
    let select = sqlx::query_as("SELECT * FROM charges WHERE account = $1 ORDER BY number");
    let charges: Vec<Charge> = select.bind(account.as_str()).fetch_all(&pool).await?;
    Ok(Json(json!({ "count": charges.len(), "data": charges })))
}
