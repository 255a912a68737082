//! What a client writes down: nothing with a key or a body in it, at any level of any crate, and in no `Debug` or error.
//! The key's digest is there instead.

use std::{cell::RefCell, io, time::Duration};

use axum::http::Extensions;
use idem_client::{
    BoxError, Builder, Call, Error, Journal, Key,
    reqwest::{Request, Response, StatusCode},
    reqwest_middleware::{ClientBuilder, Middleware, Next, Result},
};
use tracing_subscriber::{fmt::format::FmtSpan, layer::SubscriberExt, util::SubscriberInitExt};

use crate::{
    breaking::{Act, Breaking},
    stub::{at_once, transport},
};

const SECRETS: [&str; 3] = ["key-secret", "body-secret", "token-secret"];

thread_local! {
    static WRITTEN: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

struct Writer;

impl io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        WRITTEN.with_borrow_mut(|written| written.extend_from_slice(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A middleware inside ours, which shows each request to whoever reads the log.
struct Showing;

#[async_trait::async_trait]
impl Middleware for Showing {
    async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        tracing::info!(?request, "shown");
        next.run(request, extensions).await
    }
}

#[derive(Clone)]
struct Forgetless;

impl Journal for Forgetless {
    async fn keep(&self, call: &Call) -> std::result::Result<(), BoxError> {
        tracing::info!(?call, "kept");
        Ok(())
    }

    async fn forget(&self, _: &Call, _: StatusCode) -> std::result::Result<(), BoxError> {
        Err("the disk is read-only".into())
    }
}

#[track_caller]
fn assert_no_secret(text: &str) {
    for secret in SECRETS {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
}

#[tokio::test]
async fn b73_no_key_and_no_body_is_written_down() {
    // For the whole process, since two subscribers would disturb one another; this thread's lines are this test's.
    let layer = tracing_subscriber::fmt::layer().with_ansi(false).with_span_events(FmtSpan::FULL);
    tracing_subscriber::registry().with(layer.with_writer(|| Writer)).init();

    let key = Key::new("key-secret").unwrap();
    let server = Breaking::start([Act::ResetAfterBody, Act::Half(201), Act::Answer(503), Act::Answer(201)]).await;
    let builder = at_once().journal(Forgetless);
    let client = builder.clone().build(transport().connection_verbose(true)).unwrap();
    let client = ClientBuilder::from_client(client).with(Showing).build();
    let request = || client.post(server.url("/?q=1")).bearer_auth("token-secret").body("body-secret");
    let request = || request().with_extension(key.clone());
    assert_no_secret(&format!("{:?} {client:?} {builder:?} {key:?}", request()));
    assert_eq!(request().send().await.unwrap().status(), 201);

    let broken = Breaking::start([Act::Answer(503)]).await;
    let client = at_once().budget(Duration::from_millis(50)).build(transport()).unwrap();
    let error = client.post(broken.url("/")).with_extension(key.clone()).body("body-secret").send().await.unwrap_err();
    assert_no_secret(&format!("{error} {error:?}"));
    assert!(Error::of(&error).unwrap().to_string().contains(&key.digest()), "{error}");

    let text = String::from_utf8(WRITTEN.take()).unwrap();
    assert_no_secret(&text);
    for expected in ["will retry", "kept", "shown", "could not forget", &key.digest()] {
        assert!(text.contains(expected), "{expected:?} in {text}");
    }
    assert!(text.contains("TRACE") && text.contains("hyper"), "{text}");
    assert_no_secret(&format!("{:?}", Builder::default()));
}
