//! The operations whose handlers change their role or `search_path`, so that the record needs those of the claim back.
//! That costs two statements, and the first request of such an operation finds it out.

use super::operations::Operations;
use crate::backend::Session;

/// What is known of the handlers' sessions.
#[derive(Default)]
pub(crate) struct Sessions(Operations);

impl Sessions {
    /// How the record of an operation is written.
    pub(crate) fn of(&self, operation: &str) -> Session {
        if self.0.contains(operation) { Session::OfClaim } else { Session::AsLeft }
    }

    /// The table was hidden from the operation's record. From now on its session is restored.
    pub(crate) fn restore(&self, operation: &'static str) {
        if self.0.insert(operation) {
            tracing::warn!(
                operation,
                "the handler changes its role or its search_path, so each of its records costs two more statements: \
                 write `SET LOCAL ROLE` back at its end, or set `Builder::schema` if it changes the search_path only"
            );
        }
    }
}
