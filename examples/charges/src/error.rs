//! What can go wrong in a handler, what its client is told, and what that means for the key.
//! The one question that matters here: may the card have been charged?

use axum::{
    Json,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use idem_runtime::Settle;
use serde_json::json;

use crate::network::NetworkError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum AppError {
    /// An answer like any other: stored, so the same request is declined again without asking the network.
    #[error("the card was declined")]
    CardDeclined,
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// After the charge: the 500 leaves the key to recovery (`on_server_error = reconcile`).
    #[error("the database failed")]
    Database(#[from] sqlx::Error),
}

impl IntoResponse for AppError {
    fn into_response(self) -> Response {
        if !matches!(self, Self::CardDeclined) {
            tracing::error!(error = &self as &dyn std::error::Error, "a charge was not made, or not recorded");
        }
        let (status, code) = match &self {
            Self::CardDeclined => (StatusCode::PAYMENT_REQUIRED, "card-declined"),
            Self::Network(NetworkError::NothingSent(_)) => {
                (StatusCode::SERVICE_UNAVAILABLE, "card-network-unreachable")
            }
            Self::Network(_) => (StatusCode::BAD_GATEWAY, "card-network"),
            Self::Database(_) => (StatusCode::INTERNAL_SERVER_ERROR, "database"),
        };
        let answer = (status, Json(json!({ "error": { "code": code, "message": self.to_string() } })));
        match self {
            // The card was surely not charged, so the key is free at once for the next try.
            Self::Network(NetworkError::NothingSent(_)) => {
                (Settle::NothingExecuted, [(header::RETRY_AFTER, "1")], answer).into_response()
            }
            _ => answer.into_response(),
        }
    }
}
