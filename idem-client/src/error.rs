//! Why a call has no response. No error contains a key or a body: it names the call by the digest of its key.
//! Each text starts with whether anything was sent.

use std::{fmt, time::Duration};

use reqwest::{Method, StatusCode};

use crate::{ErrorResponse, Key};

/// Any error of the application, as a [`Journal`](crate::Journal) returns it.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a call has no final response. The client returns it inside a [`reqwest_middleware::Error`]: [`Error::of`] extracts
/// it.
///
/// The client returns errors of `reqwest` unchanged if a retry cannot help, such as a URL without a host.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nothing was sent: the `Idempotency-Key` is not exactly one valid key.
    #[error(
        "nothing was sent: invalid idempotency key: expected one value of 1 to 255 printable ASCII characters, not only spaces; with a space, `\"`, `,` or `;` as a quoted string"
    )]
    KeyMalformed,

    /// Nothing was sent: the request has two different keys, in its header, in its extensions or from the call it resumes.
    #[error("nothing was sent: the request has two different idempotency keys: remove one (header or extension)")]
    KeyTwice,

    /// Nothing was sent: the request has a key, but its method does not get one.
    #[error(
        "nothing was sent: the request has a key, but {method} requests get none: add the method to `Builder::methods`, or remove the key"
    )]
    NotProtected {
        /// The request's method.
        method: Method,
    },

    /// Nothing was sent: the body is a stream, so a retry could not send the same bytes.
    #[error("nothing was sent for key {}: the body is a stream and cannot be sent twice: pass it as bytes", .key.digest())]
    NotRepeatable {
        /// The call's key.
        key: Key,
    },

    /// Nothing was sent: the [`Journal`](crate::Journal) could not store the call.
    #[error("nothing was sent for key {}: the journal could not store the call", .key.digest())]
    NotKept {
        /// The call's key.
        key: Key,
        /// The journal's error.
        source: BoxError,
    },

    /// Nothing was sent: the method, URL or body of a resumed request differs from the stored call.
    #[error("nothing was sent for key {}: the method, URL or body differs from the stored call: resume it unchanged", .key.digest())]
    Altered {
        /// The call's key.
        key: Key,
    },

    /// [`Call::decode`](crate::Call::decode) cannot read the bytes: they are not a call, or a later version wrote them.
    #[error("cannot decode the stored call: {0}")]
    Unreadable(&'static str),

    /// [`Builder::build`](crate::Builder::build) found a duration of zero. No attempt could succeed within it.
    #[error("`Builder::{setting}` is zero: set a positive duration")]
    ZeroDuration {
        /// The method of [`Builder`](crate::Builder) that set the duration.
        setting: &'static str,
    },

    /// The server responded with a redirect to which the request or its key must not go. The client sent nothing there.
    /// Find out what the server did before you try again.
    #[error("a {status} redirect was not followed{}: {reason}", of_key(.key.as_ref()))]
    RedirectRefused {
        /// The call's key; `None` if requests of this method get no key.
        key: Option<Key>,
        /// The redirect's status.
        status: StatusCode,
        /// Why it was not followed.
        reason: RefusedRedirect,
    },

    /// The budget or the retries are used up without a final response. The call may have taken effect.
    /// [`GaveUp::response`] returns the last response.
    #[error(transparent)]
    GaveUp(Box<GaveUp>),
}

/// Why a redirect was not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RefusedRedirect {
    /// A 307 or 308 to another scheme, host or port. [`Builder::allow_origin`](crate::Builder::allow_origin) allows it.
    #[error("it leads to another origin: call `Builder::allow_origin` if the key may go there")]
    OtherOrigin,
    /// A 301, 302 or 303 that keeps the method. The request would be repeated without its key.
    #[error("only 307 and 308 keep the key, and the request must not be repeated without it")]
    KeyLost,
    /// More redirects than [`Builder::redirects`](crate::Builder::redirects) allows.
    #[error("there were too many redirects: see `Builder::redirects`")]
    TooMany,
}

impl Error {
    /// Extracts the error of this crate from an error of `reqwest-middleware`.
    #[must_use]
    pub fn of(error: &reqwest_middleware::Error) -> Option<&Self> {
        match error {
            reqwest_middleware::Error::Middleware(error) => error.downcast_ref(),
            reqwest_middleware::Error::Reqwest(_) => None,
        }
    }

    /// Returns the call's key, if it had one. Send the same request with this key to resume the call.
    #[must_use]
    pub fn key(&self) -> Option<&Key> {
        match self {
            Self::NotRepeatable { key } | Self::NotKept { key, .. } | Self::Altered { key } => Some(key),
            Self::RedirectRefused { key, .. } => key.as_ref(),
            Self::GaveUp(gave_up) => Some(&gave_up.key),
            Self::KeyMalformed
            | Self::KeyTwice
            | Self::NotProtected { .. }
            | Self::Unreadable(_)
            | Self::ZeroDuration { .. } => None,
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

/// A call without a final response: its attempts, their total time, the last failure and the last response.
#[derive(Debug)]
pub struct GaveUp {
    pub(crate) key: Key,
    pub(crate) attempts: u32,
    pub(crate) elapsed: Duration,
    pub(crate) last: Failure,
    pub(crate) response: Option<ErrorResponse>,
}

/// Why an attempt had no final response.
#[derive(Debug)]
#[non_exhaustive]
pub enum Failure {
    /// The server sent an error response that is to be [retried](crate::Builder::retry_on). [`GaveUp::response`] returns it.
    Status(StatusCode),
    /// The network failed: no connection, a reset, an incomplete response. The error contains no URL.
    Network(reqwest::Error),
    /// There was no response within [`Builder::attempt_timeout`](crate::Builder::attempt_timeout) or the rest of the
    /// budget.
    TimedOut,
}

impl GaveUp {
    /// Returns the call's key. Send the same request with this key, and the call takes effect once in total.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Returns the number of attempts, including the first.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Returns the time from the start of the first attempt to the end of the last.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// Returns why the last attempt failed.
    #[must_use]
    pub fn last(&self) -> &Failure {
        &self.last
    }

    /// Returns the last error response of the call, with the first 64 KiB of its body. It can be older than
    /// [`last`](Self::last), if the network failed after it. `None` if no attempt got one.
    #[must_use]
    pub fn response(&self) -> Option<&ErrorResponse> {
        self.response.as_ref()
    }
}

impl fmt::Display for GaveUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, attempts, elapsed, last, response: _ } = self;
        write!(
            f,
            "no final response in {:.1} s (attempts: {attempts}, last failure: {last}); the call may have taken effect: \
             resume it under key {} with the same method, URL and body (`Call::resume`, or the key of this error), never \
             with a new key",
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
            Self::TimedOut => f.write_str("no response in time"),
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
