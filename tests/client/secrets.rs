//! What a client writes down: nothing with a key or a body in it, at any level of any crate, and in no `Debug` or error.
//! The key's digest is there instead.

use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use idem_runtime::client::{BoxError, Builder, Call, Error, Journal, Key, reqwest::StatusCode};
use tracing_subscriber::{fmt::format::FmtSpan, layer::SubscriberExt};

use crate::{
    breaking::{Act, Breaking},
    stub::{at_once, transport},
};

const SECRETS: [&str; 3] = ["key-secret", "body-secret", "token-secret"];

#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Clone)]
struct Forgetless;

impl Journal for Forgetless {
    async fn keep(&self, call: &Call) -> Result<(), BoxError> {
        tracing::info!(?call, "kept");
        Ok(())
    }

    async fn forget(&self, _: &Call, _: StatusCode) -> Result<(), BoxError> {
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
    let written = Written::default();
    let writer = written.clone();
    let layer = tracing_subscriber::fmt::layer().with_ansi(false).with_span_events(FmtSpan::FULL);
    let subscriber = tracing_subscriber::registry().with(layer.with_writer(move || writer.clone()));
    let _listening = tracing::subscriber::set_default(subscriber);

    let key = Key::new("key-secret").unwrap();
    let server = Breaking::start([Act::ResetAfterBody, Act::Half, Act::Answer(503), Act::Answer(201)]).await;
    let builder = at_once().journal(Forgetless);
    let client = builder.clone().build(transport().connection_verbose(true)).unwrap();
    let request = || client.post(server.url("/?q=1")).bearer_auth("token-secret").body("body-secret");
    let request = || request().with_extension(key.clone());
    assert_no_secret(&format!("{:?} {client:?} {builder:?} {key:?}", request()));
    assert_eq!(request().send().await.unwrap().status(), 201);

    let broken = Breaking::start([Act::Answer(503)]).await;
    let client = at_once().budget(Duration::from_millis(50)).build(transport()).unwrap();
    let error = client.post(broken.url("/")).with_extension(key.clone()).body("body-secret").send().await.unwrap_err();
    assert_no_secret(&format!("{error} {error:?}"));
    assert!(Error::of(&error).unwrap().to_string().contains(&key.digest()), "{error}");

    let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
    assert_no_secret(&text);
    for expected in ["will retry", "kept", "did not forget", &key.digest()] {
        assert!(text.contains(expected), "{expected:?} in {text}");
    }
    assert!(text.contains("TRACE") && text.contains("hyper"), "{text}");
    assert_no_secret(&format!("{:?}", Builder::default()));
}
