//! Idem's own responses: problem documents (RFC 9457) with a stable code, and the hook that renders them in another
//! format. No detail contains a key, a scope or a body: the details are constants.

use std::time::Duration;

use axum::response::Response;
use http::StatusCode;

use crate::engine::{SettleErrorKind, StoreErrorKind};
use crate::model::{fingerprint::Differences, options::Mismatch};

/// The machine-readable code of a [`Problem`]. Its string never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// `idempotency-key-missing`, 400: the handler requires a key.
    KeyMissing,
    /// `idempotency-key-malformed`, 400: the header is not exactly one key of the right form.
    KeyMalformed,
    /// `event-id-missing`, 400: the event has no id.
    EventIdMissing,
    /// `in-progress`, 409: the original request is still running, or its attempt stalled and is not decided yet.
    InProgress,
    /// `idempotency-key-reuse`, 422 or 400: the key belongs to another request.
    KeyReuse,
    /// `idempotency-store-unavailable`, 503: the database cannot be reached or written; nothing ran, or nothing was
    /// saved.
    StoreUnavailable,
    /// `idempotency-outcome-unknown`, 503: COMMIT was sent but not acknowledged. A retry replays, or runs if nothing
    /// was saved. With external effects also: the database had a passing fault, or the attempt lost its lease. A retry
    /// replays, or gets `in-progress` until the recovery has decided.
    OutcomeUnknown,
    /// `idempotency-contention`, 503: the transaction kept conflicting with others; nothing was saved.
    Contention,
    /// `idempotency-transaction-aborted`, 500: the database refused the transaction; nothing was saved in it. With
    /// external effects the recovery decides the record.
    TransactionAborted,
    /// `idempotency-transaction-ended`, 500: the handler ended the transaction with its own SQL. With external effects
    /// the recovery decides the record.
    TransactionEnded,
    /// `idempotency-handler-panicked`, 500: the handler panicked, and this is stored like any other response. Or the
    /// scope, an option or an extractor of a second attempt panicked: nothing ran, and the key is free.
    HandlerPanicked,
    /// `idempotency-response-too-large`, 500: the response exceeds the limit; nothing was saved in the database. With
    /// external effects this problem is stored, or the recovery decides the record.
    ResponseTooLarge,
    /// `idempotency-response-unfinished`, 500: the response's body failed, or did not end within 10 seconds. What
    /// is saved is as for [`ResponseTooLarge`](Self::ResponseTooLarge).
    ResponseUnfinished,
    /// `idempotency-record-unreadable`, 500: this version cannot read the record.
    RecordUnreadable,
    /// `idempotency-schema`, 500: the table is missing, has another version, or is not accessible.
    Schema,
    /// `idempotency-table-hidden`, 500: the handler's role or `search_path` hides the table also from a record that is written
    /// with those of the claim; nothing was saved in the database.
    TableHidden,
    /// `idempotency-scope-empty`, 500: a part of the scope is empty.
    ScopeEmpty,
}

impl Code {
    /// The code's string, as in the document.
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
                "Send exactly one Idempotency-Key header, in the form that this operation documents. A key has 1 to 255 printable ASCII characters. Put it in double quotes if it contains a space, a comma, a semicolon or a double quote.",
            ),
            Self::EventIdMissing => (
                "event-id-missing",
                "The event has no id",
                "Without an id, the deliveries of one event cannot be distinguished from other events. The event was not handled.",
            ),
            Self::InProgress => (
                "in-progress",
                "A request with this Idempotency-Key is in progress",
                "The original request is still running, or its outcome is still being determined. Retry shortly with the same key; a new key could start a second operation.",
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
                "It is not known whether the result was saved. Retry with the same key: once it is known, a retry returns the result, or executes the operation if nothing happened.",
            ),
            Self::Contention => (
                "idempotency-contention",
                "The operation conflicted with concurrent ones",
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
                "The operation failed unexpectedly. Its changes to the database were rolled back; its effects in other systems are unknown.",
            ),
            Self::ResponseTooLarge => (
                "idempotency-response-too-large",
                "The response is too large to store",
                "The operation's response exceeds the limit for stored responses. Its changes to the database were rolled back.",
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
                "The idempotency store is missing, has another version, or is not accessible. Nothing was executed.",
            ),
            Self::TableHidden => (
                "idempotency-table-hidden",
                "The operation hid the idempotency store from itself",
                "The operation changed its database role or search_path, or created a table of the same name, so its result could not be saved. Its changes to the database were rolled back.",
            ),
            Self::ScopeEmpty => (
                "idempotency-scope-empty",
                "The caller could not be identified",
                "The operation could not determine whose key this is. Nothing was executed.",
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
                     COMMIT or ROLLBACK, leaked a nested transaction, or a nested `begin` \
                     failed or was cancelled"
                );
                Self::TransactionEnded
            }
            SettleErrorKind::Unavailable => Self::StoreUnavailable,
            SettleErrorKind::Schema => Self::Schema,
            SettleErrorKind::TableHidden => Self::TableHidden,
            SettleErrorKind::Unknown => Self::OutcomeUnknown,
        }
    }
}

/// Renders idem's own responses in the error format of an application.
pub(crate) type Render = dyn Fn(Problem) -> Response + Send + Sync;

/// One of idem's own responses: a problem document (RFC 9457) with the additional member `code`.
///
/// Use [`Builder::render`](crate::Builder::render) to send it in the application's error format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    code: Code,
    status: StatusCode,
    retry_after: Option<u32>,
    differences: Differences,
}

impl Problem {
    pub(crate) const fn new(code: Code) -> Self {
        Self { code, status: code.status(), retry_after: code.retry_after(), differences: Differences::UNKNOWN }
    }

    /// The response to an in-flight duplicate, whose `Retry-After` is not longer than what remains of the lease.
    pub(crate) fn in_progress(remaining: Option<Duration>) -> Self {
        let problem = Self::new(Code::InProgress);
        // An expired lease does not tell when its record will be decided.
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

    /// The response to another request under the key.
    pub(crate) const fn mismatch(mismatch: Mismatch, differences: Differences) -> Self {
        Self { differences, ..Self::of(Code::KeyReuse, mismatch) }
    }

    /// The machine-readable code.
    #[must_use]
    pub const fn code(&self) -> Code {
        self.code
    }

    /// The HTTP status.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// The stable URI of the problem type: `urn:idem:problem:` and the code.
    #[must_use]
    pub fn type_uri(&self) -> String {
        format!("urn:idem:problem:{}", self.code.as_str())
    }

    /// A short summary, the same for every occurrence.
    #[must_use]
    pub const fn title(&self) -> &'static str {
        self.code.texts().1
    }

    /// What happened, and what the client can do. It contains nothing from the request.
    #[must_use]
    pub const fn detail(&self) -> &'static str {
        self.code.texts().2
    }

    /// Where the request differs from the first one with its key, after `idempotency-key-reuse`: `method`, `path`, `query`,
    /// `body`; `fingerprint` in place of the last two if the handler compares by its own function. Empty if that
    /// is not known: the first request still runs in another process, or an earlier version compared it by another rule.
    pub fn differs(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.differences.names()
    }

    /// Seconds after which to retry, for the codes where a retry makes sense: 5 if the store is unavailable, else 1; 0
    /// if the original attempt's lease expires within a second.
    #[must_use]
    pub const fn retry_after(&self) -> Option<u32> {
        self.retry_after
    }
}
