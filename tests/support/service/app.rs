//! What the handlers share on either database: the state, the caller, the error.

use axum::{
    Json,
    extract::{FromRef, FromRequestParts},
    http::{StatusCode, request::Parts},
    response::{IntoResponse, Response},
};
use idem_runtime::{Backend, Idempotency, Scope, ScopeId};
use serde_json::json;

use crate::{
    gate::{Gate, Runs},
    network::Network,
};

/// The account that the header `x-account` names.
pub struct Account(pub String);

impl Scope for Account {
    fn scope_id(&self) -> ScopeId {
        ScopeId::new(&self.0)
    }
}

impl<S: Sync> FromRequestParts<S> for Account {
    type Rejection = StatusCode;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, StatusCode> {
        let account = parts.headers.get("x-account").and_then(|value| value.to_str().ok());
        account.map(|account| Self(account.to_owned())).ok_or(StatusCode::UNAUTHORIZED)
    }
}

/// What a test and the handler share.
#[derive(Clone, Default)]
pub struct Probe {
    pub runs: Runs,
    pub gate: Gate,
    pub network: Network,
}

#[derive(Debug, thiserror::Error)]
pub enum Failed {
    #[error("the database failed")]
    Database(#[from] sqlx::Error),
    #[error("declined")]
    Declined,
    #[error("taken")]
    Taken,
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        let status = match self {
            Self::Database(_) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Declined => StatusCode::PAYMENT_REQUIRED,
            Self::Taken => StatusCode::CONFLICT,
        };
        (status, Json(json!({ "failed": self.to_string() }))).into_response()
    }
}

/// The state, on either database.
pub struct App<Db: Backend> {
    pub idempotency: Idempotency<Db>,
    pub probe: Probe,
}

impl<Db: Backend> Clone for App<Db> {
    fn clone(&self) -> Self {
        Self { idempotency: self.idempotency.clone(), probe: self.probe.clone() }
    }
}

impl<Db: Backend> FromRef<App<Db>> for Idempotency<Db> {
    fn from_ref(app: &App<Db>) -> Self {
        app.idempotency.clone()
    }
}

impl<Db: Backend> FromRef<App<Db>> for Probe {
    fn from_ref(app: &App<Db>) -> Self {
        app.probe.clone()
    }
}
