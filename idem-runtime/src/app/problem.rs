//! Idem's own answers: problem documents (RFC 9457) with a stable code, and the hook that renders them otherwise.
//! No detail ever holds a key, a scope or a body: the details are constants.

use std::time::Duration;

use axum::response::Response;
use http::StatusCode;

use crate::engine::{SettleErrorKind, StoreErrorKind};
use crate::model::options::Mismatch;

/// What a [`Problem`] says, for programs. The text of a code never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// `idempotency-key-missing`, 400: the handler demands a key.
    KeyMissing,
    /// `idempotency-key-malformed`, 400: the header is not exactly one key of the right form.
    KeyMalformed,
    /// `event-id-missing`, 400: the event carries no id.
    EventIdMissing,
    /// `in-progress`, 409: the same request is running at this moment, or its attempt died and is not decided yet.
    InProgress,
    /// `idempotency-key-reuse`, 422 or 400: the key belongs to another request.
    KeyReuse,
    /// `idempotency-store-unavailable`, 503: the database cannot be reached or written; nothing ran, or nothing stayed.
    StoreUnavailable,
    /// `idempotency-outcome-unknown`, 503: COMMIT was sent and its answer lost, or effects elsewhere could not be recorded; a
    /// retry replays, or runs if nothing happened.
    OutcomeUnknown,
    /// `idempotency-contention`, 503: the transaction kept losing against others; nothing stayed.
    Contention,
    /// `idempotency-transaction-aborted`, 500: the database refused the transaction; nothing stayed in the database, and with
    /// external effects the record is left to the recovery.
    TransactionAborted,
    /// `idempotency-transaction-ended`, 500: the handler ended the transaction by SQL of its own. With external effects the
    /// record is left to the recovery.
    TransactionEnded,
    /// `idempotency-handler-panicked`, 500: the handler panicked; stored like any other answer.
    HandlerPanicked,
    /// `idempotency-response-too-large`, 500: the response is over the limit; nothing stayed in the database. With external
    /// effects this answer is stored, or the record is left to the recovery.
    ResponseTooLarge,
    /// `idempotency-response-unfinished`, 500: the response's body failed, or did not end within 10 seconds; for the
    /// rest as [`ResponseTooLarge`](Self::ResponseTooLarge).
    ResponseUnfinished,
    /// `idempotency-record-unreadable`, 500: there is a record that this version cannot read.
    RecordUnreadable,
    /// `idempotency-schema`, 500: the table is missing, of another version, or not permitted.
    Schema,
    /// `idempotency-scope-empty`, 500: the scope identifies nobody.
    ScopeEmpty,
}

impl Code {
    /// The code as it stands in the document.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.texts().0
    }

    /// A short summary, the same for every occurrence.
    #[must_use]
    pub const fn title(self) -> &'static str {
        self.texts().1
    }

    /// Code, title and detail.
    const fn texts(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::KeyMissing => (
                "idempotency-key-missing",
                "Idempotency-Key is missing",
                "This operation needs an Idempotency-Key header. Send one key for each logical operation, the same on every retry.",
            ),
            Self::KeyMalformed => (
                "idempotency-key-malformed",
                "Idempotency-Key is malformed",
                "Send exactly one Idempotency-Key of 1 to 255 visible ASCII characters, bare or in double quotes, in the form this operation documents.",
            ),
            Self::EventIdMissing => (
                "event-id-missing",
                "The event has no id",
                "Without an id nothing tells its deliveries from other events. It was not handled.",
            ),
            Self::InProgress => (
                "in-progress",
                "A request with this Idempotency-Key is in progress",
                "The same request is still running, or it is being found out what became of it. Retry shortly with the same key; a new key could start a second operation.",
            ),
            Self::KeyReuse => (
                "idempotency-key-reuse",
                "Idempotency-Key was used for another request",
                "This key belongs to a request with another method, path, query or body. Use a new key for a new operation.",
            ),
            Self::StoreUnavailable => (
                "idempotency-store-unavailable",
                "The idempotency store is unavailable",
                "Nothing was saved. Retry later with the same key.",
            ),
            Self::OutcomeUnknown => (
                "idempotency-outcome-unknown",
                "The outcome is unknown",
                "It is not known whether the result was saved. Retry with the same key: once that is known it answers with the result, or executes if nothing happened.",
            ),
            Self::Contention => (
                "idempotency-contention",
                "The operation lost against concurrent ones",
                "Nothing was saved. Retry later with the same key.",
            ),
            Self::TransactionAborted => (
                "idempotency-transaction-aborted",
                "The transaction was aborted",
                "The database refused the operation's transaction. Its changes to the database were not saved.",
            ),
            Self::TransactionEnded => (
                "idempotency-transaction-ended",
                "The transaction was ended by the operation",
                "The operation ended its own transaction, so its result could not be saved with it.",
            ),
            Self::HandlerPanicked => (
                "idempotency-handler-panicked",
                "Internal server error",
                "The operation failed unexpectedly. Its changes to the database were rolled back; what it may have done elsewhere is uncertain.",
            ),
            Self::ResponseTooLarge => (
                "idempotency-response-too-large",
                "The response is too large to store",
                "The operation's response is over the limit for stored responses. Its changes to the database were rolled back.",
            ),
            Self::ResponseUnfinished => (
                "idempotency-response-unfinished",
                "The response could not be completed",
                "The operation's response body failed or did not end in time. Its changes to the database were rolled back.",
            ),
            Self::RecordUnreadable => (
                "idempotency-record-unreadable",
                "The stored response cannot be read",
                "This operation was executed before, but its stored response cannot be read. It was not executed again.",
            ),
            Self::Schema => (
                "idempotency-schema",
                "The idempotency store is not set up",
                "The idempotency store is missing, of another version, or not permitted. Nothing was executed.",
            ),
            Self::ScopeEmpty => (
                "idempotency-scope-empty",
                "The caller could not be identified",
                "The operation could not tell whose key this is. Nothing was executed.",
            ),
        }
    }

    const fn status(self) -> StatusCode {
        match self {
            Self::KeyMissing | Self::KeyMalformed | Self::EventIdMissing => StatusCode::BAD_REQUEST,
            Self::InProgress => StatusCode::CONFLICT,
            Self::KeyReuse => StatusCode::UNPROCESSABLE_ENTITY,
            Self::StoreUnavailable | Self::OutcomeUnknown | Self::Contention => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    const fn retry_after(self) -> Option<u32> {
        match self {
            Self::InProgress | Self::Contention | Self::OutcomeUnknown => Some(1),
            Self::StoreUnavailable => Some(5),
            _ => None,
        }
    }
}

impl From<StoreErrorKind> for Code {
    fn from(kind: StoreErrorKind) -> Self {
        match kind {
            StoreErrorKind::Unavailable => Self::StoreUnavailable,
            StoreErrorKind::Schema => Self::Schema,
            StoreErrorKind::Unreadable => Self::RecordUnreadable,
        }
    }
}

impl From<SettleErrorKind> for Code {
    fn from(kind: SettleErrorKind) -> Self {
        match kind {
            SettleErrorKind::RunAgain => Self::Contention,
            SettleErrorKind::Aborted => Self::TransactionAborted,
            SettleErrorKind::TransactionEnded => {
                tracing::error!(
                    "the transaction is not the one that was opened, so the response was not stored: the handler ran \
                     COMMIT or ROLLBACK, changed the search_path, leaked a nested transaction, or had a nested `begin` \
                     fail or cancelled"
                );
                Self::TransactionEnded
            }
            SettleErrorKind::Unavailable => Self::StoreUnavailable,
            SettleErrorKind::Schema => Self::Schema,
            SettleErrorKind::Unknown => Self::OutcomeUnknown,
        }
    }
}

/// Renders idem's own responses in the error format of an application.
pub(crate) type Render = dyn Fn(Problem) -> Response + Send + Sync;

/// One of idem's own answers: a problem document as RFC 9457 has it, with the member `code` added.
///
/// An application that has an error format of its own renders these in it: [`Builder::render`](crate::Builder::render).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    code: Code,
    status: StatusCode,
    retry_after: Option<u32>,
}

impl Problem {
    pub(crate) const fn new(code: Code) -> Self {
        Self { code, status: code.status(), retry_after: code.retry_after() }
    }

    /// The answer to a twin. Where a lease is left, it is sent away for no longer than that.
    pub(crate) fn in_progress(remaining: Option<Duration>) -> Self {
        let problem = Self::new(Code::InProgress);
        // A lease that has run out says nothing of when its record will be decided.
        match remaining.filter(|remaining| !remaining.is_zero()).map(|remaining| remaining.as_secs()) {
            Some(0) => Self { retry_after: Some(0), ..problem },
            Some(1..) | None => problem,
        }
    }

    /// The problem of a code, with the status that the handler chose for a mismatch.
    pub(crate) const fn of(code: Code, mismatch: Mismatch) -> Self {
        match (code, mismatch) {
            (Code::KeyReuse, Mismatch::BadRequest) => Self { status: StatusCode::BAD_REQUEST, ..Self::new(code) },
            _ => Self::new(code),
        }
    }

    /// What it says, for programs.
    #[must_use]
    pub const fn code(&self) -> Code {
        self.code
    }

    /// The HTTP status it is sent with.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// The stable URI of its kind: `urn:idem:problem:` and the code.
    #[must_use]
    pub fn type_uri(&self) -> String {
        format!("urn:idem:problem:{}", self.code.as_str())
    }

    /// A short summary, the same for every occurrence.
    #[must_use]
    pub const fn title(&self) -> &'static str {
        self.code.texts().1
    }

    /// What the client can do. Holds nothing of the request.
    #[must_use]
    pub const fn detail(&self) -> &'static str {
        self.code.texts().2
    }

    /// Seconds after which a retry makes sense, for the codes where one does: 5 if the store is unavailable, else 1; 0 where
    /// less than a second is left of the twin's lease.
    #[must_use]
    pub const fn retry_after(&self) -> Option<u32> {
        self.retry_after
    }
}
