//! The choices of a client, and the client made of them.
//! Only this makes one, so `reqwest`'s own redirects are off, and the middleware is the outermost, in every one.

use std::{fmt, sync::Arc, time::Duration};

use reqwest::{Method, Url, redirect};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use retry_policies::{Jitter, RetryPolicy, policies::ExponentialBackoff};

use crate::{Journal, KeyQuoting, exchange::Redirects, middleware::Idempotent};

/// Builds a client whose calls can be repeated safely; see the [crate](crate).
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
    /// Starts with every default.
    pub fn new() -> Self {
        let backoff = ExponentialBackoff::builder()
            .retry_bounds(Duration::from_millis(200), Duration::from_secs(10))
            .jitter(Jitter::Full)
            .base(2)
            .build_with_max_retries(u32::MAX);
        let middleware = Idempotent {
            methods: vec![Method::POST, Method::PATCH],
            spelling: KeyQuoting::default(),
            budget: Duration::from_mins(2),
            attempt_timeout: Duration::from_secs(30),
            max_retry_after: Duration::from_secs(30),
            read_ahead: 1024 * 1024,
            backoff: Arc::new(backoff),
            redirects: Redirects { most: 10, allowed: Vec::new() },
            journal: None,
        };
        Self { middleware }
    }

    /// How long a call may take in all: attempts, redirects and waits. No wait is begun that does not fit. Default: 2
    /// minutes. It ends at the answer's headers and what [`read_ahead`](Self::read_ahead) reads.
    pub fn budget(mut self, budget: Duration) -> Self {
        self.middleware.budget = budget;
        self
    }

    /// How long one attempt may take, with its redirects. After it the connection is closed and the next attempt made; if
    /// the first is running still, the server says 409. Default: 30 seconds. A request's own `timeout` counts, too.
    pub fn attempt_timeout(mut self, limit: Duration) -> Self {
        self.middleware.attempt_timeout = limit;
        self
    }

    /// The most of a `Retry-After` that is waited for. Default: 30 seconds.
    pub fn max_retry_after(mut self, cap: Duration) -> Self {
        self.middleware.max_retry_after = cap;
        self
    }

    /// The waits between attempts, and how many there are. Default: exponential with full jitter, a random time below
    /// 200 milliseconds, 400, 800, … up to 10 seconds, for as long as the budget lasts.
    pub fn backoff(mut self, policy: impl RetryPolicy + Send + Sync + 'static) -> Self {
        self.middleware.backoff = Arc::new(policy);
        self
    }

    /// The methods that get keys and retries. Default: POST and PATCH.
    pub fn methods(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.middleware.methods = methods.into_iter().collect();
        self
    }

    /// How keys are written that have no spelling yet: random ones and those of [`Key::new`](crate::Key::new). A header
    /// that the caller set is sent as it is. Default: [`KeyQuoting::Bare`].
    pub fn spelling(mut self, spelling: KeyQuoting) -> Self {
        self.middleware.spelling = spelling;
        self
    }

    /// How many redirects are followed; with 0 the redirect is the answer. Default: 10.
    pub fn redirects(mut self, most: usize) -> Self {
        self.middleware.redirects.most = most;
        self
    }

    /// Lets a 307 or 308 take key and body to another origin (scheme, host and port of the URL; its path does not count).
    /// `Authorization` and cookies do not go along. Default: none.
    pub fn allow_origin(mut self, origin: Url) -> Self {
        self.middleware.redirects.allowed.push(origin);
        self
    }

    /// How many bytes of an answer are read as a part of the attempt, so that one that breaks off is retried; an answer of
    /// that size or more comes as a stream, whose end is the caller's. Default: 1 MiB.
    pub fn read_ahead(mut self, bytes: usize) -> Self {
        self.middleware.read_ahead = bytes;
        self
    }

    /// Keeps each call from before its first attempt. Default: none.
    pub fn journal(mut self, journal: impl Journal) -> Self {
        self.middleware.journal = Some(Arc::new(journal));
        self
    }

    /// Makes the client. Whatever redirect policy the transport has is replaced: redirects are
    /// [ours](Self::redirects) to follow.
    ///
    /// # Errors
    /// As `reqwest::ClientBuilder::build`: no TLS backend, no resolver.
    pub fn build(self, transport: reqwest::ClientBuilder) -> reqwest::Result<ClientWithMiddleware> {
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
        let Idempotent { methods, spelling, budget, attempt_timeout, .. } = &self.middleware;
        f.debug_struct("Builder")
            .field("methods", methods)
            .field("spelling", spelling)
            .field("budget", budget)
            .field("attempt_timeout", attempt_timeout)
            .finish_non_exhaustive()
    }
}
