//! A network that does what a test says: a script inside the client, without sockets, so that the clock can be paused.
//! It remembers every request that reached it.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::SystemTime,
};

use axum::http::{self, Extensions, HeaderMap, Method};
use idem_client::{
    Builder, Error, Failure, GaveUp,
    reqwest::{self, Request, Response, ResponseBuilderExt as _, Url},
    reqwest_middleware::{self, ClientBuilder, ClientWithMiddleware, Middleware, Next},
    retry_policies::{RetryDecision, RetryPolicy},
};
use tokio::time::Instant;

pub(crate) const PAYMENTS: &str = "http://bank.test/payments";
pub(crate) const BODY: &str = r#"{"amount":1999}"#;

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    pub(crate) at: Instant,
}

impl Seen {
    /// The one key.
    pub(crate) fn key(&self) -> String {
        let lines: Vec<_> = self.headers.get_all("idempotency-key").iter().collect();
        let [line] = lines[..] else { panic!("{} keys", lines.len()) };
        line.to_str().unwrap().to_owned()
    }

    pub(crate) fn has_key(&self) -> bool {
        self.headers.contains_key("idempotency-key")
    }
}

/// An answer of a script.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: String,
}

pub(crate) fn answer(status: u16) -> Answer {
    Answer { status, headers: Vec::new(), body: "the body".to_owned() }
}

/// What idem says while the first attempt is in flight.
pub(crate) fn in_progress() -> Answer {
    let body = r#"{"type":"urn:idem:problem:in-progress","status":409,"code":"in-progress"}"#;
    answer(409).with("content-type", "application/problem+json").saying(body)
}

impl Answer {
    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    pub(crate) fn saying(self, body: &str) -> Self {
        Self { body: body.to_owned(), ..self }
    }

    pub(crate) fn to(status: u16, location: &str) -> Self {
        answer(status).with("location", location)
    }
}

/// Answers in order, the last one for ever, in the place of the network: no socket, so the clock can be paused.
#[derive(Clone)]
pub(crate) struct Script {
    answers: Arc<Mutex<VecDeque<Answer>>>,
    seen: Arc<Mutex<Vec<Seen>>>,
    watch: Arc<dyn Fn() + Send + Sync>,
}

impl Script {
    pub(crate) fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        let answers = Arc::new(Mutex::new(answers.into_iter().collect()));
        Self { answers, seen: Arc::default(), watch: Arc::new(|| {}) }
    }

    /// The same, and says so when a request arrives.
    pub(crate) fn watched(self, watch: impl Fn() + Send + Sync + 'static) -> Self {
        Self { watch: Arc::new(watch), ..self }
    }

    /// A client of these choices whose network is this script.
    pub(crate) fn client(&self, builder: Builder) -> ClientWithMiddleware {
        ClientBuilder::from_client(builder.build(transport()).unwrap()).with(self.clone()).build()
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// The waits between the requests, in milliseconds.
    pub(crate) fn waits(&self) -> Vec<u128> {
        self.seen().windows(2).map(|pair| (pair[1].at - pair[0].at).as_millis()).collect()
    }
}

#[async_trait::async_trait]
impl Middleware for Script {
    async fn handle(&self, request: Request, _: &mut Extensions, _: Next<'_>) -> reqwest_middleware::Result<Response> {
        (self.watch)();
        let url = request.url().clone();
        self.seen.lock().unwrap().push(Seen {
            method: request.method().clone(),
            url: url.clone(),
            headers: request.headers().clone(),
            body: request.body().and_then(reqwest::Body::as_bytes).unwrap_or_default().to_vec(),
            at: Instant::now(),
        });
        let answer = {
            let mut answers = self.answers.lock().unwrap();
            let next = if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() };
            next.expect("an answer")
        };
        let mut response = http::Response::builder().status(answer.status).url(url);
        for (name, value) in &answer.headers {
            response = response.header(*name, value);
        }
        Ok(response.body(answer.body).unwrap().into())
    }
}

/// No environment's proxy, no TLS.
pub(crate) fn transport() -> reqwest::ClientBuilder {
    reqwest::Client::builder().no_proxy()
}

/// No backoff, so that what is waited is what the server asked for, and tests on sockets wait for nothing.
pub(crate) struct AtOnce;

impl RetryPolicy for AtOnce {
    fn should_retry(&self, started: SystemTime, _: u32) -> RetryDecision {
        RetryDecision::Retry { execute_after: started }
    }
}

pub(crate) fn at_once() -> Builder {
    Builder::new().backoff(AtOnce)
}

/// The error of ours in one of the client's.
#[track_caller]
pub(crate) fn ours(result: reqwest_middleware::Result<Response>) -> Error {
    match result.expect_err("an error") {
        reqwest_middleware::Error::Middleware(error) => error.downcast().expect("an error of the module"),
        reqwest_middleware::Error::Reqwest(error) => panic!("{error:?}"),
    }
}

#[track_caller]
pub(crate) fn gave_up(result: reqwest_middleware::Result<Response>) -> Box<GaveUp> {
    match ours(result) {
        Error::GaveUp(gave_up) => gave_up,
        error => panic!("{error}"),
    }
}

pub(crate) fn status_of(failure: &Failure) -> Option<u16> {
    match failure {
        Failure::Status(status) => Some(status.as_u16()),
        _ => None,
    }
}
