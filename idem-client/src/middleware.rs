//! The middleware: it gives a call its key, stores it in the journal, and retries until a final response or the budget's end.
//! It is always the outermost of its client, so no other middleware can repeat a call with another key.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use http::Extensions;
use reqwest::{Method, Request, Response};
use reqwest_middleware::{Middleware, Next};
use retry_policies::{RetryDecision, RetryPolicy};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    Call, Error, Failure, GaveUp, Key, KeyQuoting,
    call::Resumed,
    exchange::{ExchangeError, Protection, Redirects, read_ahead},
    journal::AnyJournal,
    key::HEADER,
    response::{is_final, retry_after},
};

/// The settings of a [`Builder`](crate::Builder).
#[derive(Clone)]
pub(crate) struct Idempotent {
    pub(crate) methods: Vec<Method>,
    pub(crate) quoting: KeyQuoting,
    pub(crate) budget: Duration,
    pub(crate) attempt_timeout: Duration,
    pub(crate) max_retry_after: Duration,
    pub(crate) read_ahead: usize,
    pub(crate) backoff: Arc<dyn RetryPolicy + Send + Sync>,
    pub(crate) redirects: Redirects,
    pub(crate) journal: Option<Arc<dyn AnyJournal>>,
}

/// Why an attempt has no final response.
enum AttemptError {
    /// A retry can help; with the wait that the server asks for.
    Retryable(Failure, Option<Duration>),
    /// A retry cannot help.
    Final(reqwest_middleware::Error),
}

#[async_trait::async_trait]
impl Middleware for Idempotent {
    async fn handle(
        &self,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<Response> {
        // Removed, and the key of this call is not inserted: a caller may use the same extensions for its next call, which
        // must get another key.
        let chosen = extensions.remove::<Key>();
        let resumed = extensions.remove::<Resumed>().map(|Resumed(call)| call);
        if !self.methods.contains(request.method()) {
            if chosen.is_some() || resumed.is_some() {
                return Err(Error::NotProtected { method: request.method().clone() }.into());
            }
            let result = self.redirects.exchange(request, Protection::Unprotected, extensions, &next).await;
            return result.map_err(|error| final_error(error, None));
        }
        let key = self.key(&request, chosen, resumed.as_deref())?;
        request.headers_mut().insert(HEADER, key.to_header()?);
        let call = self.keep(&key, &request, resumed).await?;
        let mut response = self.attempts(&key, &request, extensions, &next).await?;
        self.forget(call.as_deref(), &response).await;
        response.extensions_mut().insert(key);
        Ok(response)
    }
}

impl Idempotent {
    /// The key of a call, from its header, its extensions or the call it resumes; else a random one.
    fn key(&self, request: &Request, chosen: Option<Key>, resumed: Option<&Call>) -> Result<Key, Error> {
        let keys = [Key::from_headers(request.headers())?, chosen, resumed.map(|call| call.key().clone())];
        let mut keys = keys.into_iter().flatten();
        let key = keys.next().unwrap_or_else(Key::random).with_quoting(self.quoting);
        if keys.any(|other| other != key) {
            return Err(Error::KeyTwice);
        }
        if request.try_clone().is_none() {
            return Err(Error::NotRepeatable { key });
        }
        if resumed.is_some_and(|call| !call.matches(request)) {
            return Err(Error::Altered { key });
        }
        Ok(key)
    }

    /// Stores the call in the journal, unless it is stored already.
    async fn keep(&self, key: &Key, request: &Request, resumed: Option<Arc<Call>>) -> Result<Option<Arc<Call>>, Error> {
        let Some(journal) = &self.journal else { return Ok(resumed) };
        if resumed.is_some() {
            return Ok(resumed);
        }
        let call = Call::of(key.clone(), request)?;
        match journal.keep(&call).await {
            Ok(()) => Ok(Some(Arc::new(call))),
            Err(source) => Err(Error::NotKept { key: key.clone(), source }),
        }
    }

    async fn forget(&self, call: Option<&Call>, response: &Response) {
        let (Some(journal), Some(call)) = (&self.journal, call) else { return };
        if let Err(error) = journal.forget(call, response.status()).await {
            tracing::warn!(target: "idem_client", key = call.key().digest(), %error, "the journal could not forget a call");
        }
    }

    async fn attempts(
        &self,
        key: &Key,
        request: &Request,
        extensions: &mut Extensions,
        next: &Next<'_>,
    ) -> reqwest_middleware::Result<Response> {
        let (started, started_at) = (Instant::now(), SystemTime::now());
        let mut attempts = 0;
        loop {
            let left = self.budget.saturating_sub(started.elapsed());
            let Some(attempt) = request.try_clone() else {
                return Err(Error::NotRepeatable { key: key.clone() }.into());
            };
            let attempt = timeout(left.min(self.attempt_timeout), self.attempt(key, attempt, extensions, next)).await;
            let (last, requested) = match attempt {
                Ok(Ok(response)) => return Ok(response),
                Ok(Err(AttemptError::Final(error))) => return Err(error),
                Ok(Err(AttemptError::Retryable(last, requested))) => (last, requested),
                Err(_) => (Failure::TimedOut, None),
            };
            let wait = self.wait(started_at, attempts, requested);
            attempts += 1;
            let elapsed = started.elapsed();
            let Some(wait) = wait.filter(|wait| *wait < self.budget.saturating_sub(elapsed)) else {
                return Err(Error::GaveUp(Box::new(GaveUp { key: key.clone(), attempts, elapsed, last })).into());
            };
            tracing::debug!(target: "idem_client", key = key.digest(), attempts, ?wait, %last, "will retry");
            sleep(wait).await;
        }
    }

    /// Makes one attempt.
    async fn attempt(
        &self,
        key: &Key,
        request: Request,
        extensions: &mut Extensions,
        next: &Next<'_>,
    ) -> Result<Response, AttemptError> {
        let network = |error: reqwest::Error| AttemptError::Retryable(Failure::Network(error.without_url()), None);
        let result = self.redirects.exchange(request, Protection::Protected, extensions, next).await;
        let response = result.map_err(|error| match error {
            ExchangeError::Failed(reqwest_middleware::Error::Reqwest(error)) if is_retryable(&error) => network(error),
            error => AttemptError::Final(final_error(error, Some(key))),
        })?;
        if is_final(response.status(), response.headers()) {
            return read_ahead(response, self.read_ahead).await.map_err(network);
        }
        let requested = retry_after(response.headers(), SystemTime::now());
        Err(AttemptError::Retryable(Failure::Status(response.status()), requested))
    }

    /// How long to wait before a retry; `None` if the policy allows no more. The wait that the server requests is added to
    /// the backoff: its jitter separates clients that got the same `Retry-After`.
    fn wait(&self, started_at: SystemTime, retries: u32, requested: Option<Duration>) -> Option<Duration> {
        let now = SystemTime::now();
        let RetryDecision::Retry { execute_after } = self.backoff.should_retry(started_at, retries) else {
            return None;
        };
        let backoff = execute_after.duration_since(now).unwrap_or_default();
        Some(requested.unwrap_or_default().min(self.max_retry_after).saturating_add(backoff))
    }
}

/// Whether the network failed, and not the request itself.
fn is_retryable(error: &reqwest::Error) -> bool {
    !(error.is_builder() || error.is_redirect() || error.is_upgrade())
}

fn final_error(error: ExchangeError, key: Option<&Key>) -> reqwest_middleware::Error {
    match error {
        ExchangeError::Refused { status, reason } => {
            Error::RedirectRefused { key: key.cloned(), status, reason }.into()
        }
        ExchangeError::Failed(error) => error,
    }
}
