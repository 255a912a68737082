//! The options of one handler as the attribute writes them, and the policy they give over the application's choices.
//! Both are made from the table in `options`; what only a handler has stands here.

use crate::model::{
    lease_duration::LeaseDuration,
    options::{
        FingerprintRule, InProgress, Isolation, KeyFormat, KeyPresence, Methods, Mismatch, OnClientError,
        OnServerError, SetCookie, with_options,
    },
    retention::Retention,
};

/// What besides the scope tells keys apart: `scope = account` or `scope = (account, endpoint)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScopeRule {
    /// A key belongs to the account; at another endpoint it is a mismatch.
    Account,
    /// A key belongs to the account and the endpoint, which is method and route; at another it is another key.
    AccountAndEndpoint,
}

/// What a webhook handler returns for an event that was handled before. `replay = status | full`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    /// The status alone: senders of events read nothing else.
    Status,
    /// The stored response, headers and body.
    Full,
}

/// Whether the request is stored with its record in progress, for the reconciler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StoreRequest {
    Yes,
    No,
}

/// The type that an expansion makes for its handler, and that the handler's own type names. No value of it exists.
pub trait HandlerMarker {
    /// What `#[idempotent]` says of the handler.
    const OPTIONS: HandlerOptions;
}

/// The type of a policy's value: the row's own, unless it names another.
macro_rules! value {
    ($Type:ty) => {
        $Type
    };
    ($Type:ty as $Value:ty) => {
        $Value
    };
}

macro_rules! handler_options {
    ($($(#[$doc:meta])* $option:ident: $Type:ty $(as $Value:ty)? = $default:expr $(, $check:ident)?;)*) => {
        /// What `#[idempotent]` says of one handler; an option not named there is the application's.
        #[derive(Clone, Copy, Debug)]
        pub struct HandlerOptions {
            pub(crate) operation: &'static str,
            pub(crate) scope: ScopeRule,
            /// Only webhook handlers have it, and all of them.
            replay: Option<Replay>,
            store_request: StoreRequest,
            $($option: Option<$Type>,)*
        }

        impl HandlerOptions {
            /// A handler that leaves every choice to the application.
            #[must_use]
            pub const fn new(operation: &'static str, scope: ScopeRule) -> Self {
                Self { operation, scope, replay: None, store_request: StoreRequest::No, $($option: None,)* }
            }

            // An expansion names only what its attribute names.
            $(
                #[doc = concat!("Sets `", stringify!($option), "`.")]
                #[must_use]
                pub const fn $option(mut self, $option: $Type) -> Self {
                    self.$option = Some($option);
                    self
                }
            )*
        }

        /// Every choice, made. The builder holds the application's; `over` gives one handler's.
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct Policy {
            $(pub(crate) $option: value!($Type $(as $Value)?),)*
        }

        impl Default for Policy {
            fn default() -> Self {
                Self { $($option: $default,)* }
            }
        }

        impl Policy {
            /// This policy with the handler's own choices in place of the application's.
            pub(crate) fn over(self, handler: &HandlerOptions) -> Self {
                Self { $($option: handler.$option.map_or(self.$option, Into::into),)* }
            }
        }
    };
}

with_options!(handler_options);

impl HandlerOptions {
    /// A handler of events, whose key is in the event. The sender sends again what failed, so a failure frees the key.
    /// Senders change what surrounds an id at every delivery, so a replay is the status alone.
    #[must_use]
    pub const fn of_events(operation: &'static str) -> Self {
        Self::new(operation, ScopeRule::Account).on_server_error(OnServerError::Release).replay(Replay::Status)
    }

    /// Sets `replay`.
    #[must_use]
    pub const fn replay(mut self, replay: Replay) -> Self {
        self.replay = Some(replay);
        self
    }

    /// Sets `store_request`.
    #[must_use]
    pub const fn store_request(mut self) -> Self {
        self.store_request = StoreRequest::Yes;
        self
    }

    /// Sets `retention`. The attribute has checked that it lies between one second and [`Retention::MAX`].
    #[must_use]
    pub const fn retention_seconds(self, seconds: u32) -> Self {
        self.retention(Retention { seconds })
    }

    /// Sets `lease`. The attribute has checked that it lies between one millisecond and [`LeaseDuration::MAX`].
    #[must_use]
    pub const fn lease_milliseconds(self, milliseconds: u32) -> Self {
        self.lease(LeaseDuration { milliseconds })
    }

    /// Whether it names what makes two requests under one key the same.
    pub(crate) fn names_fingerprint(&self) -> bool {
        self.fingerprint.is_some()
    }

    /// Whether the key is in the event that a request delivers, not in a header.
    #[cfg_attr(not(any(feature = "utoipa", feature = "aide")), allow(dead_code))]
    pub(crate) fn is_of_events(&self) -> bool {
        self.replay.is_some()
    }

    /// What a replay sends.
    pub(crate) fn replays(&self) -> Replay {
        self.replay.unwrap_or(Replay::Full)
    }

    pub(crate) fn stores_request(&self) -> bool {
        self.store_request == StoreRequest::Yes
    }
}
