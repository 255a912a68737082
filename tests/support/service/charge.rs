//! Handlers of the same service with external effects, in its network, and the reconciler that asks the network.
//! Compiled once for each database: `Db` is the parent's.

use axum::{
    Json, Router,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::post,
};
use idem_runtime::{
    Attempt, Idempotency, Settle, idempotent,
    recovery::{BoxError, Reconciler, Recovery, StalledAttempt, Verdict},
};
use serde::Deserialize;
use serde_json::json;

use super::Db;
use crate::{
    network::Network,
    service::{Account, App, Failed, Probe},
};

/// What the handler is to do, after it has charged.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Act {
    /// Write a row.
    Write,
    /// Wait at the gate, then write a row.
    Wait,
    /// Open no transaction.
    Alone,
    /// Wait at the gate, and open no transaction.
    WaitAlone,
    /// Write a row, then decline.
    Decline,
    /// Write a row, then fail.
    Fail,
    Panic,
    /// Say that nothing was executed.
    Nothing,
}

#[derive(Deserialize)]
struct Order {
    act: Act,
    mark: String,
}

async fn act(account: Account, probe: &Probe, attempt: &mut Attempt<Db>, order: Order) -> Result<Response, Failed> {
    probe.runs.begin();
    if order.act == Act::Nothing {
        return Ok((StatusCode::BAD_REQUEST, Settle::NothingExecuted).into_response());
    }
    probe.network.charge(attempt.key("charge"));
    match order.act {
        Act::Wait | Act::WaitAlone => probe.gate.pass().await,
        Act::Panic => panic!("as asked"),
        _ => {}
    }
    if !matches!(order.act, Act::Alone | Act::WaitAlone) {
        write(attempt, &account.0, &order.mark).await?;
    }
    match order.act {
        Act::Decline => Err(Failed::Declined),
        Act::Fail => Ok(StatusCode::BAD_GATEWAY.into_response()),
        _ => Ok((StatusCode::CREATED, Json(json!({ "charged": order.mark }))).into_response()),
    }
}

async fn write(attempt: &mut Attempt<Db>, account: &str, mark: &str) -> Result<(), sqlx::Error> {
    let insert = sqlx::query("INSERT INTO effects (account, mark) VALUES ($1, $2)").bind(account).bind(mark);
    insert.execute(&mut **attempt.transaction().await?).await.map(drop)
}

#[idempotent(scope = account, effects = external)]
async fn charge(
    account: Account,
    State(probe): State<Probe>,
    attempt: &mut Attempt<Db>,
    Json(order): Json<Order>,
) -> Result<Response, Failed> {
    act(account, &probe, attempt, order).await
}

#[idempotent(scope = account, effects = external, lease = "300ms")]
async fn brief(
    account: Account,
    State(probe): State<Probe>,
    attempt: &mut Attempt<Db>,
    Json(order): Json<Order>,
) -> Result<Response, Failed> {
    act(account, &probe, attempt, order).await
}

#[idempotent(scope = account, effects = external, store_request, on_server_error = reconcile)]
async fn doubt(
    account: Account,
    State(probe): State<Probe>,
    attempt: &mut Attempt<Db>,
    Json(order): Json<Order>,
) -> Result<Response, Failed> {
    act(account, &probe, attempt, order).await
}

pub fn routes() -> Router<App<Db>> {
    Router::new().route("/charge", post(charge)).route("/brief", post(brief)).route("/doubt", post(doubt))
}

/// Asks the network by the step key, and writes the row that the handler would have written.
pub struct ByKey(pub Network);

impl Reconciler<Db> for ByKey {
    async fn reconcile(&self, _: &StalledAttempt, attempt: &mut Attempt<Db>) -> Result<Verdict, BoxError> {
        if !self.0.has(attempt.key("charge")) {
            return Ok(Verdict::NeverExecuted);
        }
        write(attempt, "ada", "recovered").await?;
        Ok(Verdict::completed((StatusCode::CREATED, "by the recovery")))
    }
}

/// A recovery of all the handlers here.
pub fn recovery(idempotency: &Idempotency<Db>, network: &Network) -> Recovery<Db> {
    let operations = ["charge", "brief", "doubt"];
    operations.iter().fold(idempotency.recovery(), |recovery, name| recovery.reconciler(*name, ByKey(network.clone())))
}
