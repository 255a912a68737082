//! The choices a handler or an application makes: one enum a choice, no booleans.
//! `Handler` is what the attribute writes; `Policy` is that over the application's defaults.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, request::Parts};

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

/// How long a record answers, in whole seconds. Past it the key is new. `retention = "24h"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    seconds: u32,
}

/// Why a [`Retention`] was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RetentionError {
    /// Under 24 hours a client that drains its queue the next morning runs everything twice.
    #[error("a retention under 24 hours must be asked for with `Retention::short`")]
    Short,
    /// A record that answers for no second protects nothing.
    #[error("a retention must be at least one second")]
    Zero,
    /// More than a hundred years.
    #[error("a retention must be at most 36500 days")]
    Long,
}

impl Retention {
    /// 24 hours, the default and the shortest that needs no permission.
    pub const DAY: Self = Self { seconds: 24 * 60 * 60 };
    /// The longest retention: 36,500 days.
    pub const MAX: Self = Self { seconds: 36_500 * 24 * 60 * 60 };

    /// A retention of 24 hours or more; a fraction of a second is dropped.
    ///
    /// # Errors
    /// [`RetentionError`] under 24 hours or over [`MAX`](Self::MAX).
    pub const fn new(length: Duration) -> Result<Self, RetentionError> {
        match Self::short(length) {
            Ok(retention) if retention.seconds < Self::DAY.seconds => Err(RetentionError::Short),
            other => other,
        }
    }

    /// A retention that may be shorter than 24 hours: a retry that comes later runs again.
    ///
    /// # Errors
    /// [`RetentionError`] under one second or over [`MAX`](Self::MAX).
    #[allow(clippy::cast_possible_truncation)] // bounded by MAX just before
    pub const fn short(length: Duration) -> Result<Self, RetentionError> {
        match length.as_secs() {
            0 => Err(RetentionError::Zero),
            seconds if seconds > Self::MAX.seconds as u64 => Err(RetentionError::Long),
            seconds => Ok(Self { seconds: seconds as u32 }),
        }
    }

    /// Its length in seconds.
    #[must_use]
    pub const fn as_secs(self) -> u32 {
        self.seconds
    }
}

/// How long an attempt with external effects may stay in progress without renewal. `lease = "60s"`.
///
/// While its process lives the lease is renewed. So its length is how long a killed attempt waits for the recovery, and how
/// long a paused or cut-off process may take to come back before its attempt is decided by others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    milliseconds: u32,
}

/// Why a [`Lease`] was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaseError {
    /// It would be over before the attempt began.
    #[error("a lease must be at least one millisecond")]
    Zero,
    /// More than a day.
    #[error("a lease must be at most 24 hours")]
    Long,
}

impl Lease {
    /// 60 seconds, the default.
    pub const MINUTE: Self = Self { milliseconds: 60_000 };
    /// The longest lease: 24 hours.
    pub const MAX: Self = Self { milliseconds: 24 * 60 * 60 * 1000 };

    /// A lease of whole milliseconds; a fraction is dropped.
    ///
    /// # Errors
    /// [`LeaseError`] under one millisecond or over [`MAX`](Self::MAX).
    #[allow(clippy::cast_possible_truncation)] // bounded by MAX just before
    pub const fn new(length: Duration) -> Result<Self, LeaseError> {
        match length.as_millis() {
            0 => Err(LeaseError::Zero),
            milliseconds if milliseconds > Self::MAX.milliseconds as u128 => Err(LeaseError::Long),
            milliseconds => Ok(Self { milliseconds: milliseconds as u32 }),
        }
    }

    /// Its length.
    #[must_use]
    pub const fn length(self) -> Duration {
        Duration::from_millis(self.milliseconds as u64)
    }
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
    key: Option<KeyPresence>,
    key_format: Option<KeyFormat>,
    mismatch: Option<Mismatch>,
    retention: Option<Retention>,
    fingerprint: Option<Fingerprint>,
    in_progress: Option<InProgress>,
    on_server_error: Option<OnServerError>,
    isolation: Option<Isolation>,
    max_response: Option<usize>,
    methods: Option<Methods>,
    set_cookie: Option<SetCookie>,
    lease: Option<Lease>,
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
            request: StoreRequest::No,
        }
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
        }
    }
}
