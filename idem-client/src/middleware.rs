//! The middleware: gives a call its key, has it kept, and makes attempts until one has a final answer or time is up.
//! It is always the outermost of its client, so that nothing can repeat a call with another key.

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
    answer::{is_final, retry_after},
    call::Resumed,
    exchange::{Broken, Redirects, read_ahead},
    journal::AnyJournal,
    key::HEADER,
};

/// What [`Builder`](crate::Builder) has collected.
#[derive(Clone)]
pub(crate) struct Idempotent {
    pub(crate) methods: Vec<Method>,
    pub(crate) spelling: KeyQuoting,
    pub(crate) budget: Duration,
    pub(crate) attempt_timeout: Duration,
    pub(crate) max_retry_after: Duration,
    pub(crate) read_ahead: usize,
    pub(crate) backoff: Arc<dyn RetryPolicy + Send + Sync>,
    pub(crate) redirects: Redirects,
    pub(crate) journal: Option<Arc<dyn AnyJournal>>,
}

/// What an attempt without a final answer ended with.
enum Ended {
    /// What may pass, and the wait that the server asked for.
    ForNow(Failure, Option<Duration>),
    /// What no retry mends.
    ForGood(reqwest_middleware::Error),
}

#[async_trait::async_trait]
impl Middleware for Idempotent {
    async fn handle(
        &self,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<Response> {
        // Taken out: whoever uses the same extensions for another call means another key. And the key of this call is not
        // put in, for the same reason.
        let given = extensions.remove::<Key>();
        let resumed = extensions.remove::<Resumed>().map(|Resumed(call)| call);
        if !self.methods.contains(request.method()) {
            if given.is_some() || resumed.is_some() {
                return Err(Error::NotProtected { method: request.method().clone() }.into());
            }
            let answer = self.redirects.exchange(request, false, extensions, &next).await;
            return answer.map_err(|broken| final_error(broken, None));
        }
        let key = self.key(&request, given, resumed.as_deref())?;
        request.headers_mut().insert(HEADER, key.to_header()?);
        let call = self.kept(&key, &request, resumed).await?;
        let mut response = self.attempts(&key, &request, extensions, &next).await?;
        self.forget(call.as_deref(), &response).await;
        response.extensions_mut().insert(key);
        Ok(response)
    }
}

impl Idempotent {
    /// The key of a call: that of its header, of its extension, of the call it resumes, or a new one.
    fn key(&self, request: &Request, given: Option<Key>, resumed: Option<&Call>) -> Result<Key, Error> {
        let given = [Key::from_headers(request.headers())?, given, resumed.map(|call| call.key().clone())];
        let mut given = given.into_iter().flatten();
        let key = given.next().unwrap_or_else(Key::random).with_quoting(self.spelling);
        if given.any(|other| other != key) {
            return Err(Error::KeyTwice);
        }
        if request.try_clone().is_none() {
            return Err(Error::NotRepeatable { key });
        }
        if resumed.is_some_and(|call| !call.is_request(request)) {
            return Err(Error::Altered { key });
        }
        Ok(key)
    }

    /// Has the journal keep the call, unless it does already.
    async fn kept(&self, key: &Key, request: &Request, resumed: Option<Arc<Call>>) -> Result<Option<Arc<Call>>, Error> {
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
            tracing::warn!(target: "idem_runtime", key = call.key().digest(), %error, "the journal did not forget a call");
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
            let (last, asked) = match attempt {
                Ok(Ok(response)) => return Ok(response),
                Ok(Err(Ended::ForGood(error))) => return Err(error),
                Ok(Err(Ended::ForNow(last, asked))) => (last, asked),
                Err(_) => (Failure::TimedOut, None),
            };
            let wait = self.wait(started_at, attempts, asked);
            attempts += 1;
            let elapsed = started.elapsed();
            let Some(wait) = wait.filter(|wait| *wait < self.budget.saturating_sub(elapsed)) else {
                return Err(Error::GaveUp(Box::new(GaveUp { key: key.clone(), attempts, elapsed, last })).into());
            };
            tracing::debug!(target: "idem_runtime", key = key.digest(), attempts, ?wait, %last, "will retry");
            sleep(wait).await;
        }
    }

    /// One attempt, to a final answer.
    async fn attempt(
        &self,
        key: &Key,
        request: Request,
        extensions: &mut Extensions,
        next: &Next<'_>,
    ) -> Result<Response, Ended> {
        let network = |error: reqwest::Error| Ended::ForNow(Failure::Network(error.without_url()), None);
        let response =
            self.redirects.exchange(request, true, extensions, next).await.map_err(|broken| match broken {
                Broken::Failed(reqwest_middleware::Error::Reqwest(error)) if passes(&error) => network(error),
                broken => Ended::ForGood(final_error(broken, Some(key))),
            })?;
        if is_final(response.status(), response.headers()) {
            return read_ahead(response, self.read_ahead).await.map_err(network);
        }
        let asked = retry_after(response.headers(), SystemTime::now());
        Err(Ended::ForNow(Failure::Status(response.status()), asked))
    }

    /// How long to wait before a retry; `None` if the policy wants none. What the server asks for comes on top of the
    /// backoff, whose jitter keeps clients that were told the same from coming back at the same moment.
    fn wait(&self, started_at: SystemTime, retries: u32, asked: Option<Duration>) -> Option<Duration> {
        let now = SystemTime::now();
        let RetryDecision::Retry { execute_after } = self.backoff.should_retry(started_at, retries) else {
            return None;
        };
        let backoff = execute_after.duration_since(now).unwrap_or_default();
        Some(asked.unwrap_or_default().min(self.max_retry_after).saturating_add(backoff))
    }
}

/// Whether a failure may pass: the network's, and not one of the request itself.
fn passes(error: &reqwest::Error) -> bool {
    !(error.is_builder() || error.is_redirect() || error.is_upgrade())
}

fn final_error(broken: Broken, key: Option<&Key>) -> reqwest_middleware::Error {
    match broken {
        Broken::Refused { status, reason } => Error::RedirectRefused { key: key.cloned(), status, reason }.into(),
        Broken::Failed(error) => error,
    }
}
