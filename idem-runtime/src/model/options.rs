//! The options that a handler and an application can choose: an enum for each, no booleans, and one table of them all.
//! `handler_options` and the builder are made from the table.

use std::{fmt, time::Duration};

use bytes::Bytes;
use http::{Method, request::Parts};

/// Passes the table of options to the macro `$with`. A new option is one row.
///
/// A row has the documentation of the builder's setter, the name, the type, and the value that holds where neither the
/// application nor the handler chooses. `as` names the type of that value where it is another one. The function behind the
/// comma refuses values that the builder must not get.
macro_rules! with_options {
    ($with:ident) => {
        $with! {
            /// Sets whether a protected request must carry a key. Default: [`KeyPresence::Required`].
            key: KeyPresence = KeyPresence::Required;
            /// Sets the form of keys. Default: [`KeyFormat::Any`].
            key_format: KeyFormat = KeyFormat::Any;
            /// Sets the status for a key reused with another request. Default: [`Mismatch::Unprocessable`].
            mismatch: Mismatch = Mismatch::Unprocessable;
            /// Sets how long records are replayed. Default: [`Retention::DAY`].
            retention: Retention = Retention::DAY;
            /// Sets what requests are compared by. Default: [`FingerprintRule::Bytes`].
            fingerprint: FingerprintRule = FingerprintRule::Bytes;
            /// Sets what an in-flight duplicate gets. Default: [`InProgress::Reject`].
            ///
            /// # Panics
            /// If it waits for zero: that is [`InProgress::Reject`].
            in_progress: InProgress = InProgress::Reject, wait_longer_than_zero;
            /// Sets how long an attempt with external effects may stay in progress without renewal.
            /// Default: [`LeaseDuration::MINUTE`].
            lease: LeaseDuration = LeaseDuration::MINUTE;
            /// Sets what happens after a 4xx. Default: [`OnClientError::Store`].
            on_client_error: OnClientError = OnClientError::Store;
            /// Sets what happens after a 5xx or a panic. Default: [`OnServerError::Store`].
            on_server_error: OnServerError = OnServerError::Store;
            /// Sets the isolation level of transactions. Default: the database's own.
            isolation: Isolation as Option<Isolation> = None;
            /// Sets the largest response body that is stored, in bytes. Default: 1 MiB.
            ///
            /// # Panics
            /// If it is zero.
            max_response: usize = 1024 * 1024, at_least_one;
            /// Sets which methods are protected. Default: POST and PATCH.
            methods: Methods = Methods::default();
            /// Sets whether a replay repeats `Set-Cookie` lines. Default: [`SetCookie::Replay`].
            set_cookie: SetCookie = SetCookie::Replay;
        }
    };
}
pub(crate) use with_options;

/// Whether a protected request must carry a key. `key = required | optional`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyPresence {
    /// A request without a key gets `400`, code `idempotency-key-missing`.
    #[default]
    Required,
    /// A request without a key runs in a transaction, unprotected.
    Optional,
}

/// The form that a key must have. `key_format = any | quoted | uuid | ulid`.
///
/// Every key has 1 to 255 printable ASCII characters, not only spaces. A key with a space, comma, semicolon or double
/// quote must be quoted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
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
#[non_exhaustive]
pub enum Mismatch {
    /// `422 Unprocessable Content`, as the IETF draft says.
    #[default]
    Unprocessable,
    /// `400 Bad Request`, as Stripe responds.
    BadRequest,
}

/// How two requests with one key are compared. `fingerprint = bytes | json | form | path::to::function`.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub enum FingerprintRule {
    /// Method, path, query and body, byte for byte.
    #[default]
    Bytes,
    /// As [`Bytes`](Self::Bytes), but the member order and the white space of a JSON body do not count (RFC 8785).
    /// Numbers and strings count as written, and array order counts. A body that is not JSON, or that nests deeper than
    /// 32 levels, is compared byte for byte.
    Json,
    /// As [`Bytes`](Self::Bytes), but of a `multipart/form-data` body the parts count, with their headers and in their
    /// order, and not the boundary between them: `curl -F` and browsers choose a new one for each attempt. Another body, or
    /// a broken form, is compared byte for byte. Needs the feature `form`.
    #[cfg(feature = "form")]
    Form,
    /// Method, path, and the bytes that the function returns for the request's parts and body.
    Custom(fn(&Parts, &Bytes) -> Vec<u8>),
}

/// The response to an in-flight duplicate. `in_progress = reject | wait("5s")`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
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

/// What happens after a 4xx. `on_client_error = store | release`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnClientError {
    /// The response is stored and replayed; the handler's writes are rolled back.
    #[default]
    Store,
    /// Everything is rolled back and the key is released: a retry runs. For handlers with database effects. External
    /// effects cannot be rolled back, so for handlers that have them this is [`Store`](Self::Store).
    Release,
}

/// What happens after a 5xx or a panic. `on_server_error = store | release | reconcile`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
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
#[non_exhaustive]
pub enum Isolation {
    /// `READ COMMITTED`
    ReadCommitted,
    /// `REPEATABLE READ`
    RepeatableRead,
    /// `SERIALIZABLE`
    Serializable,
}

/// The methods whose requests are protected. `methods = [POST, PATCH]`: any of POST, PATCH, PUT and DELETE.
///
/// With every other method the handler runs unprotected, and a key is ignored. The first such request of an operation that
/// carries a key is logged as a warning. GET, HEAD, OPTIONS and TRACE are safe (RFC 9110, section 9.2.1): they have no
/// effect to protect.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Methods(u8);

impl Methods {
    /// POST alone.
    pub const POST: Self = Self(1);
    /// PATCH alone.
    pub const PATCH: Self = Self(2);
    /// PUT alone. RFC 9110 calls it idempotent: choose it if the handler's own PUT is not.
    pub const PUT: Self = Self(4);
    /// DELETE alone. RFC 9110 calls it idempotent: choose it if the handler's own DELETE is not.
    pub const DELETE: Self = Self(8);

    /// These methods and `others`.
    #[must_use]
    pub const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    pub(crate) fn protect(self, method: &Method) -> bool {
        self.each().any(|protected| protected == method)
    }

    fn each(self) -> impl Iterator<Item = Method> {
        let all = [
            (Self::POST, Method::POST),
            (Self::PATCH, Method::PATCH),
            (Self::PUT, Method::PUT),
            (Self::DELETE, Method::DELETE),
        ];
        all.into_iter().filter(move |(one, _)| self.0 & one.0 != 0).map(|(_, method)| method)
    }
}

impl Default for Methods {
    fn default() -> Self {
        Self::POST.and(Self::PATCH)
    }
}

impl fmt::Debug for Methods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.each()).finish()
    }
}

/// Whether a replay repeats the response's `Set-Cookie` lines. `set_cookie = replay | drop`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SetCookie {
    /// They are stored and replayed: a scope is one account.
    #[default]
    Replay,
    /// They are not stored.
    Drop,
}
