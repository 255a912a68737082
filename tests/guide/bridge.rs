//! Release 2 of the guide's chapter on moving, on the database of the module that holds this.
//! The block is what follows this header; what it leaves out stands below it.

use axum::{
    Json,
    http::{HeaderMap, StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use idem_runtime::{Settle, idempotent};

/// The key of this request in the old table.
struct OldKey {
    key: String,
    account: i64,
    endpoint: &'static str,
}

impl OldKey {
    fn of(headers: &HeaderMap, account: &Account, endpoint: &'static str) -> Self {
        // As the old code read it: it stored quotes, if the client sent any.
        let key = headers.get("idempotency-key").and_then(|key| key.to_str().ok()).unwrap_or_default();
        Self { key: key.to_owned(), account: account.id, endpoint }
    }

    /// Claims the key. If it is taken, returns the response.
    async fn claim(&self, tx: &mut Connection) -> Result<Option<Response>, sqlx::Error> {
        let insert = "INSERT INTO idempotency_keys (key, account, endpoint) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
        let insert = sqlx::query(insert).bind(&self.key).bind(self.account).bind(self.endpoint);
        if insert.execute(&mut *tx).await?.rows_affected() == 1 {
            return Ok(None);
        }
        let select = "SELECT status, response FROM idempotency_keys WHERE key = $1 AND account = $2 AND endpoint = $3";
        let select = sqlx::query_as::<_, (Option<i32>, Option<String>)>(select);
        let (status, body) = select.bind(&self.key).bind(self.account).bind(self.endpoint).fetch_one(tx).await?;
        let status = status.and_then(|status| StatusCode::from_u16(status.try_into().ok()?).ok());
        Ok(Some(match status {
            Some(status) => (status, [(CONTENT_TYPE, "application/json")], body.unwrap_or_default()).into_response(),
            // Begun by code that commits its claim first. Nothing is stored: the next attempt looks again.
            None => (StatusCode::CONFLICT, Settle::NothingExecuted).into_response(),
        }))
    }

    /// Stores the response for the nodes of release 1.
    async fn done(&self, tx: &mut Connection, status: StatusCode, body: &str) -> Result<(), sqlx::Error> {
        let update =
            "UPDATE idempotency_keys SET status = $4, response = $5 WHERE key = $1 AND account = $2 AND endpoint = $3";
        let update = sqlx::query(update).bind(&self.key).bind(self.account).bind(self.endpoint);
        update.bind(i32::from(status.as_u16())).bind(body).execute(tx).await.map(drop)
    }
}

#[idempotent(scope = (account, endpoint), operation = "create_payment")]
async fn create_payment(
    account: Account,
    headers: HeaderMap,
    tx: &mut Connection, // `PgConnection` or `SqliteConnection`
    Json(payment): Json<Payment>,
) -> Result<Response, AppError> {
    let old = OldKey::of(&headers, &account, "POST /payments");
    if let Some(response) = old.claim(&mut *tx).await? {
        return Ok(response);
    }
    let body = insert_payment(&mut *tx, &account, &payment).await?; // the work, as before
    old.done(tx, StatusCode::CREATED, &body).await?;
    Ok((StatusCode::CREATED, [(CONTENT_TYPE, "application/json")], body).into_response())
}

use axum::{
    extract::FromRequestParts,
    http::request::Parts,
    routing::{MethodRouter, post},
};
use idem_runtime::{Idempotency, Scope, ScopeId};
use idem_tests::gate::{Gate, Runs};

use super::{Connection, Db};

pub struct Account {
    id: i64,
    gate: Option<Gate>,
    runs: Runs,
}

impl Scope for Account {
    fn scope_id(&self) -> ScopeId {
        ScopeId::new(self.id.to_be_bytes())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Account {
    type Rejection = StatusCode;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, StatusCode> {
        let gate = parts.extensions.get().cloned();
        let runs = parts.extensions.get().cloned().ok_or(StatusCode::INTERNAL_SERVER_ERROR)?;
        Ok(Self { id: 1, gate, runs })
    }
}

#[derive(serde::Deserialize)]
pub struct Payment {
    amount: i64,
}

#[derive(Debug, thiserror::Error)]
#[error("the database failed")]
pub struct AppError(#[from] sqlx::Error);

impl IntoResponse for AppError {
    fn into_response(self) -> Response {
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
    }
}

async fn insert_payment(tx: &mut Connection, account: &Account, payment: &Payment) -> Result<String, sqlx::Error> {
    account.runs.begin();
    let insert = sqlx::query("INSERT INTO payments (account, amount) VALUES ($1, $2)");
    insert.bind(account.id).bind(payment.amount).execute(tx).await?;
    if let Some(gate) = &account.gate {
        gate.pass().await;
    }
    Ok(format!(r#"{{"amount":{}}}"#, payment.amount))
}

pub fn route() -> MethodRouter<Idempotency<Db>> {
    post(create_payment)
}

/// Release 3.
pub mod alone {
    use super::{Account, AppError, CONTENT_TYPE, Connection, IntoResponse, Json, Payment, Response, StatusCode};

    #[idem_runtime::idempotent(scope = (account, endpoint), operation = "create_payment")]
    pub async fn create_payment(
        account: Account,
        tx: &mut Connection,
        Json(payment): Json<Payment>,
    ) -> Result<Response, AppError> {
        let body = super::insert_payment(tx, &account, &payment).await?;
        Ok((StatusCode::CREATED, [(CONTENT_TYPE, "application/json")], body).into_response())
    }
}
