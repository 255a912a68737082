//! The options of one handler as the attribute writes them, and the policy they give over the application's defaults.
//! An option that the attribute does not name is the application's.

use crate::model::{
    lease_duration::LeaseDuration,
    options::{
        FingerprintRule, InProgress, Isolation, KeyFormat, KeyPresence, Methods, Mismatch, OnServerError, Replay,
        SetCookie,
    },
    retention::Retention,
};

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
pub struct HandlerOptions {
    pub(crate) operation: &'static str,
    pub(crate) scope: ScopeRule,
    pub(crate) key: Option<KeyPresence>,
    pub(crate) key_format: Option<KeyFormat>,
    pub(crate) mismatch: Option<Mismatch>,
    pub(crate) retention: Option<Retention>,
    pub(crate) fingerprint: Option<FingerprintRule>,
    pub(crate) in_progress: Option<InProgress>,
    on_server_error: Option<OnServerError>,
    isolation: Option<Isolation>,
    max_response: Option<usize>,
    pub(crate) methods: Option<Methods>,
    set_cookie: Option<SetCookie>,
    lease: Option<LeaseDuration>,
    pub(crate) replay: Option<Replay>,
    request: StoreRequest,
}

/// One `const` setter an option, so that an expansion names only what its attribute names.
macro_rules! setters {
    ($($option:ident: $Type:ty,)*) => {
        impl HandlerOptions {
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
    fingerprint: FingerprintRule,
    in_progress: InProgress,
    on_server_error: OnServerError,
    isolation: Isolation,
    max_response: usize,
    methods: Methods,
    set_cookie: SetCookie,
    replay: Replay,
}

impl HandlerOptions {
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

    /// Sets `lease`, which the attribute has checked to lie between one millisecond and [`LeaseDuration::MAX`].
    #[must_use]
    pub const fn lease(mut self, milliseconds: u32) -> Self {
        self.lease = Some(LeaseDuration { milliseconds });
        self
    }

    /// Sets `store_request`.
    #[must_use]
    pub const fn store_request(mut self) -> Self {
        self.request = StoreRequest::Yes;
        self
    }

    /// Whether it names what makes two requests under one key the same.
    pub(crate) fn names_fingerprint(&self) -> bool {
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
pub(crate) struct Policy {
    pub(crate) key: KeyPresence,
    pub(crate) key_format: KeyFormat,
    pub(crate) mismatch: Mismatch,
    pub(crate) retention: Retention,
    pub(crate) fingerprint: FingerprintRule,
    pub(crate) in_progress: InProgress,
    pub(crate) on_server_error: OnServerError,
    pub(crate) isolation: Option<Isolation>,
    pub(crate) max_response: usize,
    pub(crate) methods: Methods,
    pub(crate) set_cookie: SetCookie,
    pub(crate) lease: LeaseDuration,
    pub(crate) replay: Replay,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            key: KeyPresence::default(),
            key_format: KeyFormat::default(),
            mismatch: Mismatch::default(),
            retention: Retention::DAY,
            fingerprint: FingerprintRule::default(),
            in_progress: InProgress::default(),
            on_server_error: OnServerError::default(),
            isolation: None,
            max_response: 1024 * 1024,
            methods: Methods::default(),
            set_cookie: SetCookie::default(),
            lease: LeaseDuration::MINUTE,
            replay: Replay::Full,
        }
    }
}

impl Policy {
    /// This policy with the handler's own choices in place of the application's.
    pub(crate) fn over(self, handler: &HandlerOptions) -> Self {
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
