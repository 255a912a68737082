//! The settings of a client, and the client built from them.
//! There is no other way to build one, so in every client the redirects of `reqwest` are off and the middleware is outermost.

use std::{fmt, sync::Arc, time::Duration};

use reqwest::{Method, Url, redirect};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use retry_policies::{Jitter, RetryPolicy, policies::ExponentialBackoff};

use crate::{Error, ErrorResponse, Journal, KeyQuoting, exchange::Redirects, middleware::Idempotent};

/// Builds a client whose calls can be retried safely. See the [crate documentation](crate).
///
/// ```
/// use std::time::Duration;
/// use idem_client::{Builder, reqwest};
///
/// let transport = reqwest::Client::builder().connect_timeout(Duration::from_secs(3)).user_agent("shop/1");
/// let client = Builder::new()
///     .budget(Duration::from_secs(30))
///     .attempt_timeout(Duration::from_secs(10))
///     .allow_origin("https://eu.bank.example".parse()?)
///     .build(transport)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct Builder {
    middleware: Idempotent,
}

impl Builder {
    /// Starts with all defaults.
    pub fn new() -> Self {
        let backoff = ExponentialBackoff::builder()
            .retry_bounds(Duration::from_millis(200), Duration::from_secs(10))
            .jitter(Jitter::Full)
            .base(2)
            .build_with_max_retries(u32::MAX);
        let middleware = Idempotent {
            methods: vec![Method::POST, Method::PATCH],
            quoting: KeyQuoting::default(),
            budget: Duration::from_mins(2),
            attempt_timeout: Duration::from_secs(30),
            max_retry_after: Duration::from_secs(30),
            read_ahead: 1024 * 1024,
            backoff: Arc::new(backoff),
            retry_on: Arc::new(ErrorResponse::is_retried_by_default),
            redirects: Redirects { max: 10, allowed: Vec::new() },
            journal: None,
        };
        Self { middleware }
    }

    /// Sets the maximum duration of a call: all its attempts, redirects and waits. Default: 2 minutes.
    ///
    /// The client gives up at once when the next wait would exceed the budget. The time to read the response counts up to
    /// [`read_ahead`](Self::read_ahead) bytes of its body. Must not be zero.
    pub fn budget(mut self, budget: Duration) -> Self {
        self.middleware.budget = budget;
        self
    }

    /// Sets the maximum duration of one attempt, including its redirects. Default: 30 seconds.
    ///
    /// When it expires, the client closes the connection and retries. While the earlier attempt is in flight, the server
    /// responds with 409 and code `in-progress`. The `timeout` of a request also applies. Must not be zero.
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.middleware.attempt_timeout = timeout;
        self
    }

    /// Sets the maximum wait for a `Retry-After`. Default: 30 seconds. Zero ignores `Retry-After`.
    ///
    /// If another response than a 429 asks for a longer wait, the client waits for this time. If a 429 does, the client gives
    /// up at once, because the server would refuse an earlier retry.
    pub fn max_retry_after(mut self, max: Duration) -> Self {
        self.middleware.max_retry_after = max;
        self
    }

    /// Sets the waits between attempts and the number of retries. Default: exponential with full jitter. The first wait is a
    /// random time below 200 milliseconds, the next one below 400, and so on up to 10 seconds, without a limit on retries.
    pub fn backoff(mut self, policy: impl RetryPolicy + Send + Sync + 'static) -> Self {
        self.middleware.backoff = Arc::new(policy);
        self
    }

    /// Sets which error responses the client retries. Default:
    /// [`ErrorResponse::is_retried_by_default`](crate::ErrorResponse::is_retried_by_default).
    ///
    /// The client calls `rule` for each 4xx and 5xx response that is not a replay. If it returns `false`, the response is
    /// final: the caller gets it, and the [`Journal`] forgets the call. Network failures and timeouts are always retried.
    ///
    /// ```
    /// # use idem_client::Builder;
    /// // Retry a locked account too.
    /// let builder = Builder::new().retry_on(|response| response.status() == 423 || response.is_retried_by_default());
    /// // Retry a conflict of another server by its code.
    /// let builder = builder.retry_on(|response| {
    ///     response.code().as_deref() == Some("idempotency_key_in_use") || response.is_retried_by_default()
    /// });
    /// // Return each 429 to the caller.
    /// let builder = builder.retry_on(|response| response.status() != 429 && response.is_retried_by_default());
    /// ```
    pub fn retry_on(mut self, rule: impl Fn(&ErrorResponse) -> bool + Send + Sync + 'static) -> Self {
        self.middleware.retry_on = Arc::new(rule);
        self
    }

    /// Sets the methods that get keys and retries. Default: POST and PATCH.
    pub fn methods(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.middleware.methods = methods.into_iter().collect();
        self
    }

    /// Sets how the header writes random keys and keys of [`Key::new`](crate::Key::new). A header that the caller set is sent
    /// unchanged. Default: [`KeyQuoting::Bare`].
    pub fn key_quoting(mut self, quoting: KeyQuoting) -> Self {
        self.middleware.quoting = quoting;
        self
    }

    /// Sets the maximum number of redirects in one attempt. Default: 10. With 0 the client returns the redirect as the
    /// response.
    pub fn redirects(mut self, max: usize) -> Self {
        self.middleware.redirects.max = max;
        self
    }

    /// Allows a 307 or 308 redirect to send key and body to another origin: the scheme, host and port of the URL. The path
    /// is ignored. `Authorization` and cookies are not sent there. Default: no other origin.
    pub fn allow_origin(mut self, origin: Url) -> Self {
        self.middleware.redirects.allowed.push(origin);
        self
    }

    /// Sets how many bytes of a response body the client reads within the attempt. Default: 1 MiB.
    ///
    /// If the connection breaks within these bytes, the client retries. A longer body is streamed to the caller, who gets the
    /// error if the connection breaks later. The client always reads the first 64 KiB of an error response, to decide whether
    /// to [retry](Self::retry_on).
    pub fn read_ahead(mut self, bytes: usize) -> Self {
        self.middleware.read_ahead = bytes;
        self
    }

    /// Sets the journal, which stores each call before its first attempt. Default: no journal.
    pub fn journal(mut self, journal: impl Journal) -> Self {
        self.middleware.journal = Some(Arc::new(journal));
        self
    }

    /// Builds the client. This replaces the redirect policy of the transport, because the middleware follows
    /// [redirects](Self::redirects) itself.
    ///
    /// # Errors
    /// - [`Error::ZeroDuration`] if [`budget`](Self::budget) or [`attempt_timeout`](Self::attempt_timeout) is zero.
    /// - The error of [`reqwest::ClientBuilder::build`], for example if there is no TLS backend.
    pub fn build(self, transport: reqwest::ClientBuilder) -> reqwest_middleware::Result<ClientWithMiddleware> {
        let Idempotent { budget, attempt_timeout, .. } = &self.middleware;
        for (setting, duration) in [("budget", budget), ("attempt_timeout", attempt_timeout)] {
            if duration.is_zero() {
                return Err(Error::ZeroDuration { setting }.into());
            }
        }
        let transport = transport.redirect(redirect::Policy::none()).build()?;
        Ok(ClientBuilder::new(transport).with(self.middleware).build())
    }
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Idempotent { methods, quoting, budget, attempt_timeout, .. } = &self.middleware;
        f.debug_struct("Builder")
            .field("methods", methods)
            .field("quoting", quoting)
            .field("budget", budget)
            .field("attempt_timeout", attempt_timeout)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(builder: Builder) -> reqwest_middleware::Result<ClientWithMiddleware> {
        builder.build(reqwest::Client::builder().no_proxy())
    }

    #[test]
    fn a_duration_of_zero_is_refused_and_named() {
        for (builder, setting) in [
            (Builder::new().budget(Duration::ZERO), "budget"),
            (Builder::new().attempt_timeout(Duration::ZERO), "attempt_timeout"),
        ] {
            let error = build(builder).unwrap_err();
            let named = match Error::of(&error) {
                Some(Error::ZeroDuration { setting }) => *setting,
                other => panic!("{other:?}"),
            };
            assert_eq!(named, setting);
            assert_eq!(error.to_string(), format!("`Builder::{setting}` is zero: set a positive duration"));
        }
    }

    #[test]
    fn every_positive_duration_is_accepted_and_zero_ignores_retry_after() {
        for duration in [Duration::from_nanos(1), Duration::MAX] {
            assert!(build(Builder::new().budget(duration).attempt_timeout(duration)).is_ok());
        }
        assert!(build(Builder::new().max_retry_after(Duration::ZERO)).is_ok());
    }
}
