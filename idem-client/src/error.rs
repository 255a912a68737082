//! Why a call has no answer. None holds a key or a body: a call is named by its key's digest.
//! Whether anything was sent is the first thing each of them says.

use std::{fmt, time::Duration};

use reqwest::{Method, StatusCode};

use crate::Key;

/// Any error of the application's own, as a [`Journal`](crate::Journal) returns it.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a call has no final answer. It comes inside a [`reqwest_middleware::Error`]; [`Error::of`] finds it there.
///
/// Errors of `reqwest` after which a retry is of no use (a URL without a host, say) come as they are.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nothing was sent: the `Idempotency-Key` is not exactly one key.
    #[error(
        "nothing was sent: an idempotency key is one value of 1 to 255 visible ASCII characters without \", comma, semicolon and backslash"
    )]
    KeyMalformed,

    /// Nothing was sent: the request has one key in its header and another as its extension.
    #[error("nothing was sent: the request's header and its extension are different keys, leave one of them out")]
    KeyTwice,

    /// Nothing was sent: the request has a key, and its method is not one that gets keys.
    #[error(
        "nothing was sent: a {method} request was given a key, and only the methods of `Builder::methods` are protected"
    )]
    NotProtected {
        /// The request's method.
        method: Method,
    },

    /// Nothing was sent: the body is a stream, so no second attempt could send the same bytes.
    #[error("nothing was sent for key {}: the body is a stream and cannot be sent twice, give it as bytes", .key.digest())]
    NotRepeatable {
        /// The call's key.
        key: Key,
    },

    /// Nothing was sent: the [`Journal`](crate::Journal) did not take the call.
    #[error("nothing was sent for key {}: the journal did not keep the call", .key.digest())]
    NotKept {
        /// The call's key.
        key: Key,
        /// What the journal said.
        source: BoxError,
    },

    /// Nothing was sent: a resumed request has another method, URL or body than the call it resumes.
    #[error("nothing was sent for key {}: a resumed call must have the method, URL and body that were kept", .key.digest())]
    Altered {
        /// The call's key.
        key: Key,
    },

    /// What was to be a kept call is not one, or is one of a later version.
    #[error("this is no call that this version can read: {0}")]
    Unreadable(&'static str),

    /// The server answered with a redirect that would take the request, or its key, where it must not go. Nothing was sent
    /// there. Find out what the server did before another attempt.
    #[error("a {status} redirect was not followed{}: {reason}", of_key(.key.as_ref()))]
    RedirectRefused {
        /// The call's key; none if its method gets none.
        key: Option<Key>,
        /// The redirect's status.
        status: StatusCode,
        /// Why.
        reason: RefusedRedirect,
    },

    /// The time, or the retries, are used up without a final answer. The call may have taken effect.
    #[error(transparent)]
    GaveUp(Box<GaveUp>),
}

/// Why a redirect was not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RefusedRedirect {
    /// A 307 or 308 to another scheme, host or port, which the key must not reach: [`Builder::allow_origin`](crate::Builder::allow_origin).
    #[error("it leads to another origin; if the key may go there, allow it with `Builder::allow_origin`")]
    OtherOrigin,
    /// A 301, 302 or 303 after which the request would be a write still, without its key.
    #[error("only 307 and 308 keep the key, and the request would be sent without it")]
    KeyLost,
    /// More than [`Builder::redirects`](crate::Builder::redirects).
    #[error("there were too many before it")]
    TooMany,
}

impl Error {
    /// The error of this module inside one of `reqwest-middleware`.
    #[must_use]
    pub fn of(error: &reqwest_middleware::Error) -> Option<&Self> {
        match error {
            reqwest_middleware::Error::Middleware(error) => error.downcast_ref(),
            reqwest_middleware::Error::Reqwest(_) => None,
        }
    }

    /// The call's key, where there was one: with it and the same request the call can be resumed.
    #[must_use]
    pub fn key(&self) -> Option<&Key> {
        match self {
            Self::NotRepeatable { key } | Self::NotKept { key, .. } | Self::Altered { key } => Some(key),
            Self::RedirectRefused { key, .. } => key.as_ref(),
            Self::GaveUp(gave_up) => Some(&gave_up.key),
            Self::KeyMalformed | Self::KeyTwice | Self::NotProtected { .. } | Self::Unreadable(_) => None,
        }
    }
}

fn of_key(key: Option<&Key>) -> String {
    key.map(|key| format!(" for key {}", key.digest())).unwrap_or_default()
}

impl From<Error> for reqwest_middleware::Error {
    fn from(error: Error) -> Self {
        Self::middleware(error)
    }
}

/// A call without a final answer: how often and how long it was tried, and what came last.
#[derive(Debug)]
pub struct GaveUp {
    pub(crate) key: Key,
    pub(crate) attempts: u32,
    pub(crate) elapsed: Duration,
    pub(crate) last: Failure,
}

/// What an attempt ended with that was no final answer.
#[derive(Debug)]
#[non_exhaustive]
pub enum Failure {
    /// A 409 or a 5xx that is not a replay.
    Status(StatusCode),
    /// The network's: no connection, a reset, an answer that broke off. Without the URL.
    Network(reqwest::Error),
    /// No answer within [`Builder::attempt_timeout`](crate::Builder::attempt_timeout), or what was left of the budget.
    TimedOut,
}

impl GaveUp {
    /// The call's key: send the same request with it, and it takes effect once in all.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// How many attempts were made, the first one included.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// From before the first attempt to after the last.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// What the last attempt ended with.
    #[must_use]
    pub fn last(&self) -> &Failure {
        &self.last
    }
}

impl fmt::Display for GaveUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, attempts, elapsed, last } = self;
        write!(
            f,
            "no final answer after {attempts} attempts in {:.1} s, last {last}; the call may have taken effect: resume it \
             under key {} with the same method, URL and body (`Call::resume`, or the key of this error), never with a new key",
            elapsed.as_secs_f64(),
            key.digest(),
        )
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "{status}"),
            Self::Network(error) => write!(f, "{error}"),
            Self::TimedOut => f.write_str("no answer in time"),
        }
    }
}

impl std::error::Error for GaveUp {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.last {
            Failure::Network(error) => Some(error),
            Failure::Status(_) | Failure::TimedOut => None,
        }
    }
}
