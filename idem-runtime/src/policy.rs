//! The choices a handler or an application makes: one enum a choice, no booleans.
//! `Handler` is what the attribute writes; `Policy` is that over the application's defaults.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, request::Parts};

use crate::lengths::{Lease, Retention};

/// Whether a protected request must carry a key. `key = required | optional`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyPresence {
    /// No key is answered `400`, code `idempotency-key-missing`.
    #[default]
    Required,
    /// Without a key the handler runs in a transaction, unprotected.
    Optional,
}

/// The form a key must have. `key_format = any | quoted | uuid | ulid`.
///
/// Whatever the form, a key has 1 to 255 characters of visible ASCII.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyFormat {
    /// Quoted (RFC 9651 string) or bare; both spellings are the same key.
    #[default]
    Any,
    /// Quoted only, as the IETF draft writes it.
    Quoted,
    /// A hyphenated UUID (RFC 9562), in either spelling.
    Uuid,
    /// A ULID: 26 characters of Crockford's base 32, in either spelling.
    Ulid,
}

/// The status of a key reused for another request. `mismatch = 422 | 400`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mismatch {
    /// `422 Unprocessable Content`, as the IETF draft says.
    #[default]
    Unprocessable,
    /// `400 Bad Request`, as Stripe answers.
    BadRequest,
}

/// What a request is compared by. `fingerprint = bytes | json | path::to::function`.
#[derive(Clone, Copy, Debug, Default)]
pub enum Fingerprint {
    /// Method, path, query and body, byte for byte.
    #[default]
    Bytes,
    /// As [`Bytes`](Self::Bytes), but a JSON body counts by its members: their order (sorted as RFC 8785 sorts)
    /// and white space do not. Numbers and strings count as they are written, array order too.
    /// A body that is not JSON counts by its bytes.
    Json,
    /// Method, path, and what the function returns for the request's parts and body.
    Declared(fn(&Parts, &Bytes) -> Vec<u8>),
}

/// What a request meets whose twin is still running. `in_progress = reject | wait("5s")`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InProgress {
    /// `409`, code `in-progress`, at once.
    #[default]
    Reject,
    /// Waits this long, at most an hour, without a connection, for the twin's record and replays it; then `409`.
    Wait(Duration),
}

impl InProgress {
    pub(crate) const LONGEST_WAIT: Duration = Duration::from_hours(1);
}

/// What becomes of a 5xx or a panic. `on_server_error = store | release | reconcile`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnServerError {
    /// The answer is stored and replayed; the handler's writes are rolled back.
    #[default]
    Store,
    /// Everything is rolled back and the key is free: a retry runs. For handlers with database effects; what others did
    /// elsewhere cannot be rolled back, so for them this is [`Store`](Self::Store).
    Release,
    /// The answer is sent and not stored; the recovery decides the record. For handlers with external effects; for others,
    /// of whom nothing is left undecided, this is [`Store`](Self::Store).
    Reconcile,
}

/// The isolation level of the transaction. `isolation = "…"`; without it, the database's own default.
///
/// SQLite has one level, serializable, and gives it for each of these.
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
    /// POST alone.
    Post,
    /// PATCH alone.
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

/// What an event that was handled before is answered with. `replay = status | whole`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    /// The status alone: a sender of events reads nothing else.
    Status,
    /// The stored answer, headers and body.
    Whole,
}

/// Whether the request is stored with its record in progress, for the reconciler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StoreRequest {
    Yes,
    No,
}

/// What besides the scope tells keys apart: `scope = account` or `scope = (account, endpoint)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScopeRule {
    /// A key belongs to the account; at another endpoint it is a mismatch.
    Account,
    /// A key belongs to the account and the endpoint, which is method and route; at another it is another key.
    AccountAndEndpoint,
}

/// What `#[idempotent]` says of one handler; an option not named there is the application's.
#[derive(Clone, Copy, Debug)]
pub struct Handler {
    pub(crate) operation: &'static str,
    pub(crate) scope: ScopeRule,
    pub(crate) key: Option<KeyPresence>,
    pub(crate) key_format: Option<KeyFormat>,
    pub(crate) mismatch: Option<Mismatch>,
    pub(crate) retention: Option<Retention>,
    pub(crate) fingerprint: Option<Fingerprint>,
    pub(crate) in_progress: Option<InProgress>,
    on_server_error: Option<OnServerError>,
    isolation: Option<Isolation>,
    max_response: Option<usize>,
    pub(crate) methods: Option<Methods>,
    set_cookie: Option<SetCookie>,
    lease: Option<Lease>,
    pub(crate) replay: Option<Replay>,
    request: StoreRequest,
}

/// One `const` setter an option, so that an expansion names only what its attribute names.
macro_rules! setters {
    ($($option:ident: $Type:ty,)*) => {
        impl Handler {
            $(
                #[doc = concat!("Sets `", stringify!($option), "`.")]
                #[must_use]
                pub const fn $option(mut self, $option: $Type) -> Self {
                    self.$option = Some($option);
                    self
                }
            )*
        }
    };
}

setters! {
    key: KeyPresence,
    key_format: KeyFormat,
    mismatch: Mismatch,
    fingerprint: Fingerprint,
    in_progress: InProgress,
    on_server_error: OnServerError,
    isolation: Isolation,
    max_response: usize,
    methods: Methods,
    set_cookie: SetCookie,
    replay: Replay,
}

impl Handler {
    /// A handler that takes every choice from the application.
    #[must_use]
    pub const fn new(operation: &'static str, scope: ScopeRule) -> Self {
        Self {
            operation,
            scope,
            key: None,
            key_format: None,
            mismatch: None,
            retention: None,
            fingerprint: None,
            in_progress: None,
            on_server_error: None,
            isolation: None,
            max_response: None,
            methods: None,
            set_cookie: None,
            lease: None,
            replay: None,
            request: StoreRequest::No,
        }
    }

    /// A handler of events, whose key is in the event. What goes wrong is sent again by whoever sent the event, so a failure
    /// frees the key; and senders change what is around an id at every delivery, so that counts for nothing.
    #[must_use]
    pub const fn of_events(operation: &'static str) -> Self {
        Self::new(operation, ScopeRule::Account).on_server_error(OnServerError::Release).replay(Replay::Status)
    }

    /// Sets `lease`, which the attribute has checked to lie between one millisecond and [`Lease::MAX`].
    #[must_use]
    pub const fn lease(mut self, milliseconds: u32) -> Self {
        self.lease = Some(Lease { milliseconds });
        self
    }

    /// Sets `store_request`.
    #[must_use]
    pub const fn store_request(mut self) -> Self {
        self.request = StoreRequest::Yes;
        self
    }

    /// Whether it says what makes two requests under one key the same.
    pub(crate) fn compares(&self) -> bool {
        self.fingerprint.is_some()
    }

    pub(crate) fn stores_request(&self) -> bool {
        self.request == StoreRequest::Yes
    }

    /// Sets `retention`, which the attribute has checked to lie between one second and [`Retention::MAX`].
    #[must_use]
    pub const fn retention(mut self, seconds: u32) -> Self {
        self.retention = Some(Retention { seconds });
        self
    }
}

/// Every choice, made. The builder holds the application's; `over` gives one handler's.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    pub(crate) key: KeyPresence,
    pub(crate) key_format: KeyFormat,
    pub(crate) mismatch: Mismatch,
    pub(crate) retention: Retention,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) in_progress: InProgress,
    pub(crate) on_server_error: OnServerError,
    pub(crate) isolation: Option<Isolation>,
    pub(crate) max_response: usize,
    pub(crate) methods: Methods,
    pub(crate) set_cookie: SetCookie,
    pub(crate) lease: Lease,
    pub(crate) replay: Replay,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            key: KeyPresence::default(),
            key_format: KeyFormat::default(),
            mismatch: Mismatch::default(),
            retention: Retention::DAY,
            fingerprint: Fingerprint::default(),
            in_progress: InProgress::default(),
            on_server_error: OnServerError::default(),
            isolation: None,
            max_response: 1024 * 1024,
            methods: Methods::default(),
            set_cookie: SetCookie::default(),
            lease: Lease::MINUTE,
            replay: Replay::Whole,
        }
    }
}

impl Policy {
    /// This policy with the handler's own choices in place of the application's.
    pub(crate) fn over(self, handler: &Handler) -> Self {
        Self {
            key: handler.key.unwrap_or(self.key),
            key_format: handler.key_format.unwrap_or(self.key_format),
            mismatch: handler.mismatch.unwrap_or(self.mismatch),
            retention: handler.retention.unwrap_or(self.retention),
            fingerprint: handler.fingerprint.unwrap_or(self.fingerprint),
            in_progress: handler.in_progress.unwrap_or(self.in_progress),
            on_server_error: handler.on_server_error.unwrap_or(self.on_server_error),
            isolation: handler.isolation.or(self.isolation),
            max_response: handler.max_response.unwrap_or(self.max_response),
            methods: handler.methods.unwrap_or(self.methods),
            set_cookie: handler.set_cookie.unwrap_or(self.set_cookie),
            lease: handler.lease.unwrap_or(self.lease),
            replay: handler.replay.unwrap_or(self.replay),
        }
    }
}
