//! The handler of the README, and what it leaves out.
//! The block is what follows this header; what it leaves out stands behind it.

use axum::{Json, http::StatusCode};
use idem_runtime::{Scope, ScopeId, idempotent};
use sqlx::PgConnection;

#[idempotent(scope = account)]
async fn pay(
    account: Account,      // your extractor: the authenticated caller
    tx: &mut PgConnection, // the open transaction, which also records the key
    Json(payment): Json<Payment>,
) -> Result<(StatusCode, Json<Payment>), AppError> {
    let insert = sqlx::query("INSERT INTO payments (account, amount) VALUES ($1, $2)");
    insert.bind(account.id).bind(payment.amount).execute(tx).await?;
    Ok((StatusCode::CREATED, Json(payment)))
}

impl Scope for Account {
    fn scope_id(&self) -> ScopeId {
        ScopeId::new(self.id.to_be_bytes())
    }
}

struct Account {
    id: i64,
}
impl<S: Sync> axum::extract::FromRequestParts<S> for Account {
    type Rejection = StatusCode;
    async fn from_request_parts(_: &mut axum::http::request::Parts, _: &S) -> Result<Self, StatusCode> {
        Ok(Account { id: 1 })
    }
}
#[derive(serde::Serialize, serde::Deserialize)]
struct Payment {
    amount: i64,
}
#[derive(Debug, thiserror::Error)]
#[error("the database failed")]
struct AppError(#[from] sqlx::Error);
impl axum::response::IntoResponse for AppError {
    fn into_response(self) -> axum::response::Response {
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
    }
}
