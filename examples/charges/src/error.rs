//! The errors of the handlers, their responses, and what each one means for the key.
//! Only one question matters here: may the card have been charged?

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use idem_runtime::Settle;
use scaffold::error::error_response;

use crate::network::NetworkError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ChargeError {
    /// A final response. It is stored, and a retry gets it without another call to the network.
    #[error("the card was declined")]
    CardDeclined,
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// Happens after the charge. `on_server_error = reconcile` leaves the key to the recovery.
    #[error("the database failed")]
    Database(#[from] sqlx::Error),
}

impl IntoResponse for ChargeError {
    fn into_response(self) -> Response {
        if !matches!(self, Self::CardDeclined) {
            tracing::error!(error = &self as &dyn std::error::Error, "a charge was not made, or not recorded");
        }
        let (status, code) = match &self {
            Self::CardDeclined => (StatusCode::PAYMENT_REQUIRED, "card-declined"),
            Self::Network(NetworkError::NothingSent(_)) => {
                (StatusCode::SERVICE_UNAVAILABLE, "card-network-unreachable")
            }
            Self::Network(NetworkError::Unclear(_)) => (StatusCode::BAD_GATEWAY, "card-network"),
            Self::Database(_) => (StatusCode::INTERNAL_SERVER_ERROR, "database"),
        };
        let response = error_response(status, code, &self.to_string());
        match self {
            // The card was certainly not charged, so idem frees the key at once.
            Self::Network(NetworkError::NothingSent(_)) => {
                (Settle::NothingExecuted, [(header::RETRY_AFTER, "1")], response).into_response()
            }
            _ => response,
        }
    }
}
