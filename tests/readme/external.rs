//! The handler with external effects of the README, and what it leaves out.
//! The block is what follows this header; what it leaves out stands behind it.

use idem_runtime::{
    Attempt,
    recovery::{BoxError, Reconciler, StalledAttempt, Verdict},
};

#[idempotent(scope = account, effects = external, on_server_error = reconcile)]
async fn create_charge(
    account: Account,
    State(network): State<Network>,
    attempt: &mut Attempt<Postgres>,
    Json(payment): Json<Payment>,
) -> Result<(StatusCode, Json<Charge>), AppError> {
    let charge = network.charge(attempt.key("charge"), account.id, payment.amount).await?;
    record(attempt, charge).await
}

impl Reconciler<Postgres> for Network {
    async fn reconcile(&self, dead: &StalledAttempt, attempt: &mut Attempt<Postgres>) -> Result<Verdict, BoxError> {
        match self.charge_by_key(attempt.key("charge")).await? {
            Some(charge) => Ok(Verdict::completed(record(attempt, charge).await?)),
            None if dead.tries() == 0 => Ok(Verdict::Unknown), // a call may still be under way: asked again later
            None => Ok(Verdict::NeverExecuted),
        }
    }
}

async fn record(attempt: &mut Attempt<Postgres>, charge: Charge) -> Result<(StatusCode, Json<Charge>), AppError> {
    let insert = sqlx::query("INSERT INTO charges (id, account, amount) VALUES ($1, $2, $3)");
    let insert = insert.bind(&charge.id).bind(charge.account).bind(charge.amount);
    insert.execute(&mut **attempt.transaction().await?).await?;
    Ok((StatusCode::CREATED, Json(charge)))
}

use axum::{
    Json,
    extract::State,
    http::{StatusCode, request::Parts},
    response::{IntoResponse, Response},
};
use idem_runtime::{Scope, ScopeId, StepKey, idempotent};
use sqlx::Postgres;

struct Account {
    id: i64,
}
impl Scope for Account {
    fn scope_id(&self) -> ScopeId {
        ScopeId::new(self.id.to_be_bytes())
    }
}
impl<S: Sync> axum::extract::FromRequestParts<S> for Account {
    type Rejection = StatusCode;
    async fn from_request_parts(_: &mut Parts, _: &S) -> Result<Self, StatusCode> {
        Ok(Account { id: 1 })
    }
}
#[derive(serde::Deserialize)]
struct Payment {
    amount: i64,
}
#[derive(serde::Serialize)]
struct Charge {
    id: String,
    account: i64,
    amount: i64,
}
#[derive(Clone)]
struct Network;
impl Network {
    async fn charge(&self, _: StepKey, account: i64, amount: i64) -> Result<Charge, std::io::Error> {
        Ok(Charge { id: "ch_1".to_owned(), account, amount })
    }
    async fn charge_by_key(&self, _: StepKey) -> Result<Option<Charge>, std::io::Error> {
        Ok(None)
    }
}
#[derive(Debug, thiserror::Error)]
#[error("the database or the network failed")]
enum AppError {
    Database(#[from] sqlx::Error),
    Network(#[from] std::io::Error),
}
impl IntoResponse for AppError {
    fn into_response(self) -> Response {
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
    }
}
