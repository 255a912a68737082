//! The middleware: it gives a call its key, stores it in the journal, and retries until a final response or the budget's end.
//! It is always the outermost of its client, so no other middleware can repeat a call with another key.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use http::Extensions;
use reqwest::{Method, Request, Response, StatusCode};
use reqwest_middleware::{Middleware, Next};
use retry_policies::{RetryDecision, RetryPolicy};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    Call, Error, ErrorResponse, Failure, GaveUp, Key, KeyQuoting,
    arriving::Arriving,
    call::Resumed,
    exchange::{ExchangeError, Protection, Redirects},
    journal::AnyJournal,
    key::HEADER,
    response::retry_after,
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
    pub(crate) retry_on: Arc<dyn Fn(&ErrorResponse) -> bool + Send + Sync>,
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
        let chosen = [extensions.remove::<Key>(), extensions.remove::<Option<Key>>().flatten()];
        let resumed = extensions.remove::<Resumed>().map(|Resumed(call)| call);
        if !self.methods.contains(request.method()) {
            if chosen.iter().any(Option::is_some) || resumed.is_some() {
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
    fn key(&self, request: &Request, chosen: [Option<Key>; 2], resumed: Option<&Call>) -> Result<Key, Error> {
        let [key, optional] = chosen;
        let keys = [Key::from_headers(request.headers())?, key, optional, resumed.map(|call| call.key().clone())];
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
        let (mut attempts, mut error) = (0, None);
        loop {
            let left = self.budget.saturating_sub(started.elapsed());
            let Some(attempt) = request.try_clone() else {
                return Err(Error::NotRepeatable { key: key.clone() }.into());
            };
            let attempt = self.attempt(key, attempt, extensions, next, &mut error);
            let (last, requested) = match timeout(left.min(self.attempt_timeout), attempt).await {
                Ok(Ok(response)) => return Ok(response),
                Ok(Err(AttemptError::Final(error))) => return Err(error),
                Ok(Err(AttemptError::Retryable(last, requested))) => (last, requested),
                Err(_) => (Failure::TimedOut, None),
            };
            let wait = self.wait(started_at, attempts, &last, requested);
            attempts += 1;
            let elapsed = started.elapsed();
            let Some(wait) = wait.filter(|wait| *wait < self.budget.saturating_sub(elapsed)) else {
                let gave_up = GaveUp { key: key.clone(), attempts, elapsed, last, response: error };
                return Err(Error::GaveUp(Box::new(gave_up)).into());
            };
            tracing::debug!(target: "idem_client", key = key.digest(), attempts, ?wait, %last, "will retry");
            sleep(wait).await;
        }
    }

    /// Makes one attempt. If its response is an error, `error` holds it, also where the attempt is cancelled while the body
    /// arrives.
    async fn attempt(
        &self,
        key: &Key,
        request: Request,
        extensions: &mut Extensions,
        next: &Next<'_>,
        error: &mut Option<ErrorResponse>,
    ) -> Result<Response, AttemptError> {
        let network = |error: reqwest::Error| AttemptError::Retryable(Failure::Network(error.without_url()), None);
        let result = self.redirects.exchange(request, Protection::Protected, extensions, next).await;
        let response = result.map_err(|error| match error {
            ExchangeError::Failed(reqwest_middleware::Error::Reqwest(error)) if is_retryable(&error) => network(error),
            error => AttemptError::Final(final_error(error, Some(key))),
        })?;
        let mut arriving = Arriving::new(response);
        if let Some(head) = arriving.error_response() {
            *error = Some(head);
            // One byte more tells whether the body is truncated.
            let read = arriving.read_to(ErrorResponse::MAX_BODY + 1).await;
            *error = arriving.error_response();
            read.map_err(network)?;
            if let Some(error) = error.as_ref().filter(|error| (self.retry_on)(error)) {
                let requested = retry_after(error.headers(), SystemTime::now());
                return Err(AttemptError::Retryable(Failure::Status(error.status()), requested));
            }
        }
        arriving.read_to(self.read_ahead).await.map_err(network)?;
        Ok(arriving.into_response())
    }

    /// How long to wait before a retry; `None` if there is to be no other. The wait that the server requests is added to the
    /// backoff: its jitter separates clients that got the same `Retry-After`.
    fn wait(
        &self,
        started_at: SystemTime,
        retries: u32,
        last: &Failure,
        requested: Option<Duration>,
    ) -> Option<Duration> {
        let (now, longest) = (SystemTime::now(), self.max_retry_after);
        let limited = matches!(last, Failure::Status(StatusCode::TOO_MANY_REQUESTS));
        if limited && !longest.is_zero() && requested.is_some_and(|requested| requested > longest) {
            return None;
        }
        let RetryDecision::Retry { execute_after } = self.backoff.should_retry(started_at, retries) else {
            return None;
        };
        let backoff = execute_after.duration_since(now).unwrap_or_default();
        Some(requested.unwrap_or_default().min(longest).saturating_add(backoff))
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
