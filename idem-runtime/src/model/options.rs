//! The choices that a handler or an application makes: one enum for each option, no booleans.
//! `handler_options` holds the set that one handler or one application chose.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, request::Parts};

/// Whether a protected request must carry a key. `key = required | optional`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyPresence {
    /// A request without a key gets `400`, code `idempotency-key-missing`.
    #[default]
    Required,
    /// A request without a key runs in a transaction, unprotected.
    Optional,
}

/// The form that a key must have. `key_format = any | quoted | uuid | ulid`.
///
/// Every key has 1 to 255 characters of visible ASCII.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyFormat {
    /// Quoted (RFC 9651 string) or bare; both are the same key.
    #[default]
    Any,
    /// Quoted only, as the IETF draft writes it.
    Quoted,
    /// A hyphenated UUID (RFC 9562), quoted or bare.
    Uuid,
    /// A ULID: 26 characters of Crockford's base 32, quoted or bare.
    Ulid,
}

/// The status for a key that was used for another request. `mismatch = 422 | 400`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mismatch {
    /// `422 Unprocessable Content`, as the IETF draft says.
    #[default]
    Unprocessable,
    /// `400 Bad Request`, as Stripe responds.
    BadRequest,
}

/// How two requests with one key are compared. `fingerprint = bytes | json | path::to::function`.
#[derive(Clone, Copy, Debug, Default)]
pub enum FingerprintRule {
    /// Method, path, query and body, byte for byte.
    #[default]
    Bytes,
    /// As [`Bytes`](Self::Bytes), but the member order and the white space of a JSON body do not count (RFC 8785).
    /// Numbers and strings count as written, and array order counts. A body that is not JSON, or that nests deeper than
    /// 32 levels, is compared byte for byte.
    Json,
    /// Method, path, and the bytes that the function returns for the request's parts and body.
    Custom(fn(&Parts, &Bytes) -> Vec<u8>),
}

/// The response to an in-flight duplicate. `in_progress = reject | wait("5s")`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InProgress {
    /// `409`, code `in-progress`, at once.
    #[default]
    Reject,
    /// Wait for the first request's record and replay it; after this long, at most one hour, `409`. A waiting request
    /// holds no connection.
    Wait(Duration),
}

impl InProgress {
    pub(crate) const MAX_WAIT: Duration = Duration::from_hours(1);
}

/// What happens after a 5xx or a panic. `on_server_error = store | release | reconcile`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnServerError {
    /// The response is stored and replayed; the handler's writes are rolled back.
    #[default]
    Store,
    /// Everything is rolled back and the key is released: a retry runs. For handlers with database effects. External
    /// effects cannot be rolled back, so for handlers that have them this is [`Store`](Self::Store).
    Release,
    /// The response is sent and not stored; the recovery decides the record. For handlers with external effects. Other
    /// handlers leave nothing undecided, so for them this is [`Store`](Self::Store).
    Reconcile,
}

/// The isolation level of the transaction. `isolation = "…"`; without it, the database's own default.
///
/// SQLite has one level, serializable, and uses it for each of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// `READ COMMITTED`
    ReadCommitted,
    /// `REPEATABLE READ`
    RepeatableRead,
    /// `SERIALIZABLE`
    Serializable,
}

/// The methods whose requests are protected. `methods = [POST, PATCH]`.
///
/// The others are idempotent by definition (RFC 9110, section 9.2.2): a key sent with them is ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Methods {
    /// POST and PATCH.
    #[default]
    PostAndPatch,
    /// POST only.
    Post,
    /// PATCH only.
    Patch,
}

impl Methods {
    pub(crate) fn protect(self, method: &Method) -> bool {
        match self {
            Self::PostAndPatch => method == Method::POST || method == Method::PATCH,
            Self::Post => method == Method::POST,
            Self::Patch => method == Method::PATCH,
        }
    }
}

/// Whether a replay repeats the response's `Set-Cookie` lines. `set_cookie = replay | drop`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetCookie {
    /// They are stored and replayed: a scope is one account.
    #[default]
    Replay,
    /// They are not stored.
    Drop,
}

/// What an event that was handled before is answered with. `replay = status | full`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    /// The status alone: a sender of events reads nothing else.
    Status,
    /// The stored answer, headers and body.
    Full,
}
