//! Servers that do what a test says: a script inside the client, without sockets, and one on a socket that breaks it.
//! Both remember every request that reached them.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::SystemTime,
};

use axum::http::{self, Extensions, HeaderMap, Method};
use idem_runtime::client::{
    Builder, Error, Failure, GaveUp,
    reqwest::{self, Request, Response, ResponseBuilderExt as _, Url},
    reqwest_middleware::{self, ClientBuilder, ClientWithMiddleware, Middleware, Next},
    retry_policies::{RetryDecision, RetryPolicy},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
    time::Instant,
};

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
#[derive(Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
}

pub(crate) fn answer(status: u16) -> Answer {
    Answer { status, headers: Vec::new() }
}

impl Answer {
    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
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
        Ok(response.body("the body").unwrap().into())
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

/// What a server on a socket does with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Reads the head, and resets before the body is read.
    ResetBeforeBody,
    /// Reads the whole request, and resets.
    ResetAfterBody,
    /// Answers 201, with half of the body it announced.
    Half,
    /// Reads the request, and keeps silent for as long as the server lives.
    Silence,
    /// Answers with this status and the body `done`.
    Answer(u16),
}

/// A server that does one act a connection, the last one for ever.
pub(crate) struct Breaking {
    pub(crate) address: SocketAddr,
    heads: Arc<Mutex<Vec<(String, Vec<u8>)>>>,
    serving: JoinHandle<()>,
}

impl Breaking {
    pub(crate) async fn start(acts: impl IntoIterator<Item = Act>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let heads = Arc::<Mutex<Vec<_>>>::default();
        let mut acts: VecDeque<_> = acts.into_iter().collect();
        let seen = Arc::clone(&heads);
        let serving = tokio::spawn(async move {
            let mut silent = Vec::new();
            while let Ok((connection, _)) = listener.accept().await {
                let act = if acts.len() > 1 { acts.pop_front() } else { acts.front().copied() };
                silent.extend(perform(act.expect("an act"), connection, &seen).await);
            }
        });
        Self { address, heads, serving }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The head and the body of each request, as bytes; no body where it was not read.
    pub(crate) fn seen(&self) -> Vec<(String, Vec<u8>)> {
        self.heads.lock().unwrap().clone()
    }
}

impl Drop for Breaking {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn perform(act: Act, mut connection: TcpStream, seen: &Mutex<Vec<(String, Vec<u8>)>>) -> Option<TcpStream> {
    let mut bytes = Vec::new();
    let (head, length) = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8(bytes.drain(..end + 4).collect()).unwrap();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            break (head, length.unwrap_or(0));
        }
        if connection.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    if act != Act::ResetBeforeBody {
        while bytes.len() < length {
            if connection.read_buf(&mut bytes).await.ok()? == 0 {
                return None;
            }
        }
    } else {
        bytes.clear();
    }
    seen.lock().unwrap().push((head, bytes));
    let text = match act {
        Act::ResetBeforeBody | Act::ResetAfterBody => {
            connection.set_zero_linger().unwrap();
            return None;
        }
        Act::Silence => return Some(connection),
        Act::Half => "HTTP/1.1 201 Created\r\ncontent-length: 8\r\n\r\nhalf".to_owned(),
        Act::Answer(status) => {
            format!("HTTP/1.1 {status} Any\r\ncontent-length: 4\r\nconnection: close\r\n\r\ndone")
        }
    };
    connection.write_all(text.as_bytes()).await.ok()?;
    connection.shutdown().await.ok()?;
    None
}
