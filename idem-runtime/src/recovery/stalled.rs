//! A stalled attempt: its lease expired, because its process died, hung or lost the database.
//! Lists and reconcilers use this one type.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::{
    backend::StalledRow,
    model::{record_id::RecordId, stored_request::StoredRequest},
};

/// An attempt with external effects whose lease expired before its record was completed.
#[derive(Clone, Debug)]
pub struct StalledAttempt {
    row: StalledRow,
    request: Option<StoredRequest>,
}

impl StalledAttempt {
    pub(super) fn of(mut row: StalledRow) -> Self {
        let encoded = row.request.take();
        let request = encoded.as_deref().and_then(StoredRequest::decode);
        if encoded.is_some() && request.is_none() {
            tracing::error!(record = %row.id, "a stored request cannot be read");
        }
        Self { row, request }
    }

    /// The record's identifier, for logs and for [`Idempotency::resolve`](crate::Idempotency::resolve).
    #[must_use]
    pub fn id(&self) -> RecordId {
        self.row.id
    }

    /// The stored name of the operation.
    #[must_use]
    pub fn operation(&self) -> &str {
        &self.row.operation
    }

    /// When the attempt started, by the database's clock, to the millisecond.
    #[must_use]
    pub fn started_at(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(u64::try_from(self.row.started_at).unwrap_or(0))
    }

    /// How often a reconciler was called before.
    #[must_use]
    pub fn tries(&self) -> u32 {
        self.row.tries
    }

    /// The error of the last call that failed: at most 500 characters.
    #[must_use]
    pub fn last_error(&self) -> Option<&str> {
        self.row.last_error.as_deref()
    }

    /// The request, if the handler has `store_request`. A reconciler gets it; [`Idempotency::stalled`] does not read
    /// it.
    ///
    /// [`Idempotency::stalled`]: crate::Idempotency::stalled
    #[must_use]
    pub fn request(&self) -> Option<&StoredRequest> {
        self.request.as_ref()
    }
}
