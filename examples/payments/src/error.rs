//! What can go wrong in a handler, and what its client is told.
//! Handlers use `?`; idem finds a serialization failure behind `Database` by itself and runs the transaction again.

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::json;

#[derive(Debug, thiserror::Error)]
pub(crate) enum AppError {
    #[error("the card was declined")]
    CardDeclined,
    #[error("the card network failed, and whether the card was charged is not known")]
    CardNetwork,
    #[error("this account has no such payment")]
    NoSuchPayment,
    #[error("the database failed")]
    Database(#[from] sqlx::Error),
}

impl IntoResponse for AppError {
    fn into_response(self) -> Response {
        if let Self::Database(error) = &self {
            tracing::error!(error = error as &dyn std::error::Error, "a handler's statement failed");
        }
        let (status, code) = match self {
            Self::CardDeclined => (StatusCode::PAYMENT_REQUIRED, "card-declined"),
            Self::CardNetwork => (StatusCode::INTERNAL_SERVER_ERROR, "card-network"),
            Self::NoSuchPayment => (StatusCode::NOT_FOUND, "no-such-payment"),
            Self::Database(_) => (StatusCode::INTERNAL_SERVER_ERROR, "database"),
        };
        (status, Json(json!({ "error": { "code": code, "message": self.to_string() } }))).into_response()
    }
}
