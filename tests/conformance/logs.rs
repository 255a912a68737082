//! What operators see: outcome and operation, and never a key, a scope or a body, at any level.

use std::{
    io,
    sync::{Arc, Mutex},
};

use axum::{Router, routing::post};
use tracing::{Level, subscriber::DefaultGuard};

use super::app::*;

/// What was logged on this thread, which is the whole test's.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn start() -> (Self, DefaultGuard) {
        let log = Self::default();
        let written = log.clone();
        let subscriber = tracing_subscriber::fmt().with_max_level(Level::TRACE).with_ansi(false);
        let guard = tracing::subscriber::set_default(subscriber.with_writer(move || written.clone()).finish());
        (log, guard)
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

#[tokio::test]
async fn b73_logs_tell_outcomes_and_no_secrets() {
    let (log, _guard) = Log::start();
    let service = Service::start(Router::new().route("/pay", post(pay)).route("/refund", post(refund))).await;
    let account = ("authorization", "Bearer secret-account");
    let send = async |path, key, body: &str| service.send("POST", path, &[account, (KEY, key)], body).await.status;
    assert_eq!(send("/pay", "secret-key", "secret-body").await, 201);
    assert_eq!(send("/pay", "secret-key", "secret-body").await, 201);
    assert_eq!(send("/pay", "secret-key", "other secret-body").await, 422);
    assert_eq!(send("/refund", "\"secret-key", "secret-body").await, 400);
    service.execute("UPDATE idem_records SET format = 99").await;
    assert_eq!(send("/pay", "secret-key", "secret-body").await, 500);
    let text = log.text();
    for outcome in
        ["stored", "replayed", "idempotency-key-reuse", "idempotency-key-malformed", "idempotency-record-unreadable"]
    {
        assert!(text.contains(&format!("outcome=\"{outcome}\"")), "{outcome}: {text}");
    }
    assert!(text.contains("operation=\"pay\"") && text.contains("operation=\"refund\""), "{text}");
    let errors: Vec<_> = text.lines().filter(|line| line.contains("ERROR")).collect();
    assert!(matches!(errors[..], [error] if error.contains("format 99")), "{errors:?}");
    for line in text.lines() {
        assert!(!line.contains("secret"), "{line}");
    }
    assert_eq!(service.counts().await, (1, 1, 1));
}
