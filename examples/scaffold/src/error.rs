//! The error type of the handlers, and the JSON body of every error response.
//! Handlers use `?`. idem finds a serialization failure behind `Database` through `source()` and runs the handler again.

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::json;

/// Why a handler failed.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The application refuses the request.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A statement failed.
    #[error("the database failed")]
    Database(#[from] sqlx::Error),
}

/// A reason to refuse a request. Examples declare theirs as constants.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// The response's status.
    pub status: StatusCode,
    /// What programs compare.
    pub code: &'static str,
    /// What people read.
    pub message: &'static str,
}

impl IntoResponse for AppError {
    fn into_response(self) -> Response {
        match self {
            Self::Refused(Refusal { status, code, message }) => error_response(status, code, message),
            Self::Database(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "a statement of a handler failed");
                error_response(StatusCode::INTERNAL_SERVER_ERROR, "database", "the database failed")
            }
        }
    }
}

/// `{"error": {"code": …, "message": …}}`
pub fn error_response(status: StatusCode, code: &str, message: &str) -> Response {
    (status, Json(json!({ "error": { "code": code, "message": message } }))).into_response()
}
