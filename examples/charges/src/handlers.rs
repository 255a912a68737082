//! The charges API. `Db` is `Sqlite` in `sqlite.rs`, `Postgres` in `postgres.rs`: the example runs on both, your own code
//! names one. The card is charged outside the database, under a key that every attempt at the same request derives anew.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{
    Json, Router,
    extract::{FromRef, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use idem_runtime::{Attempt, Idempotency, idempotent, recovery::Recovery};
use serde::Serialize;
use serde_json::{Value, json};
use sqlx::{FromRow, Pool};

use super::{
    Db,
    recovery::{ByKey, ByReference},
};
use crate::{
    error::AppError,
    extract::{Account, NewCharge},
    network::{Charged, Network, NetworkError},
    server::ServerError,
};

/// The name of the one step in which money moves. It is part of the derived key, so it never changes.
pub(super) const CHARGE: &str = "charge";

/// The application's state.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) idempotency: Idempotency<Db>,
    pub(crate) pool: Pool<Db>,
    network: Network,
    runs: Runs,
}

/// How many bodies of annotated handlers have begun in this process: what shows that a replay runs nothing.
#[derive(Clone, Default)]
struct Runs(Arc<AtomicU64>);

impl FromRef<App> for Idempotency<Db> {
    fn from_ref(app: &App) -> Self {
        app.idempotency.clone()
    }
}

/// Annotated handlers take parts of the state, not `App`, whose pool would lead past the attempt's transaction.
impl FromRef<App> for Runs {
    fn from_ref(app: &App) -> Self {
        app.runs.clone()
    }
}

impl FromRef<App> for Network {
    fn from_ref(app: &App) -> Self {
        app.network.clone()
    }
}

impl Runs {
    fn begin(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl App {
    /// Creates what tables are missing, the application's and idem's.
    pub(crate) async fn open(pool: Pool<Db>, tables: &'static str, network: Network) -> Result<Self, ServerError> {
        sqlx::raw_sql(tables).execute(&pool).await?;
        let idempotency = Idempotency::builder(pool.clone()).build();
        idempotency.migrate().await?;
        Ok(Self { idempotency, pool, network, runs: Runs::default() })
    }

    pub(crate) fn router(&self) -> Router {
        Router::new()
            .route("/charges", post(create_charge).get(list_charges))
            .route("/legacy-charges", post(create_legacy_charge))
            .route("/runs", get(show_runs))
            .with_state(self.clone())
    }

    /// Who decides about attempts that died: one reconciler for each operation with external effects.
    pub(crate) fn recovery(&self) -> Recovery<Db> {
        self.idempotency
            .recovery()
            .reconciler("create_charge", ByKey(self.network.clone()))
            .reconciler("create_legacy_charge", ByReference(self.network.clone()))
            .backoff(Duration::from_secs(1), Duration::from_mins(5))
            // A look-up is quick. Whoever dies in the middle of one holds the record up for about as long.
            .reconcile_timeout(Duration::from_secs(5))
    }
}

/// A charge as its account sees it.
#[derive(Serialize, FromRow)]
struct Charge {
    id: String,
    amount: i64,
    currency: String,
    source: String,
}

/// The lease is short so that the demo is: a renewal a second. The default of 60 seconds costs less and bears longer pauses.
///
/// A 5xx leaves the key to recovery: it says that nobody here knows whether the card was charged.
#[idempotent(scope = account, effects = external, lease = "3s", store_request, on_server_error = reconcile)]
async fn create_charge(
    account: Account,
    State(runs): State<Runs>,
    State(network): State<Network>,
    attempt: &mut Attempt<Db>,
    Json(new): Json<NewCharge>,
) -> Result<Response, AppError> {
    runs.begin();
    let key = attempt.key(CHARGE).to_string();
    let charged = network.charge(&key, account.as_str(), &new).await?;
    record(attempt, &new, &charged).await
}

/// The same at a network that honours no keys: look whether it was done, then do it.
///
/// **This is weaker, and no care of ours can mend it.** The look-up sees what the network has written down. A charge that
/// is still under way there, sent by an attempt that died, is not seen: whoever looks in that moment charges a second
/// time. `ByReference` waits before it believes that there is nothing, which makes that unlikely, not impossible.
/// Where a processor offers idempotency keys, use them.
#[idempotent(scope = account, effects = external, lease = "3s", store_request, on_server_error = reconcile)]
async fn create_legacy_charge(
    account: Account,
    State(runs): State<Runs>,
    State(network): State<Network>,
    attempt: &mut Attempt<Db>,
    Json(new): Json<NewCharge>,
) -> Result<Response, AppError> {
    runs.begin();
    // Not a key to this network, but something to be found by.
    let reference = attempt.key(CHARGE).to_string();
    if let Some(charged) = network.find_by_reference(&reference).await? {
        return record(attempt, &new, &charged).await;
    }
    let charged = match network.charge_without_key(&reference, account.as_str(), &new).await {
        // Never simply sent again. If it is not found either, it may still be under way: recovery asks later.
        Err(error @ NetworkError::Unclear(_)) => network.find_by_reference(&reference).await?.ok_or(error)?,
        answered => answered?,
    };
    record(attempt, &new, &charged).await
}

/// Writes a charge down and answers with it. Handlers and recovery share this, and take what they write from the request
/// and the network alone: a client gets the very same bytes from either.
pub(super) async fn record(
    attempt: &mut Attempt<Db>,
    new: &NewCharge,
    charged: &Charged,
) -> Result<Response, AppError> {
    if charged.declined() {
        return Err(AppError::CardDeclined);
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

async fn list_charges(account: Account, State(app): State<App>) -> Result<Json<Value>, AppError> {
    let charges: Vec<Charge> = sqlx::query_as("SELECT * FROM charges WHERE account = $1 ORDER BY number")
        .bind(account.as_str())
        .fetch_all(&app.pool)
        .await?;
    Ok(Json(json!({ "count": charges.len(), "data": charges })))
}

async fn show_runs(State(Runs(runs)): State<Runs>) -> Json<Value> {
    Json(json!({ "runs": runs.load(Ordering::SeqCst) }))
}
