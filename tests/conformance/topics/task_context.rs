//! The context of a request in the task in which its handler runs: lost by default, carried over by `Builder::in_task`.
//! A task-local, a subscriber that a layer sets for the future, and a context that is attached at each poll.

use std::{
    cell::Cell,
    future::Future,
    io,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use axum::{
    Router,
    extract::{Request, State},
    http::{StatusCode, request::Parts},
    middleware::{Next, from_fn},
    response::{IntoResponse, Response},
    routing::post,
};
use futures_util::future::BoxFuture;
use idem_runtime::{Builder, idempotent};
use tracing::{Dispatch, instrument::WithSubscriber};

use super::{Connection, Db, app::*};

tokio::task_local! {
    static TENANT: &'static str;
}

thread_local! {
    /// The trace that is current, as OpenTelemetry's context is.
    static TRACE: Cell<u32> = const { Cell::new(0) };
}

/// A future that attaches its trace at each poll.
struct WithTrace<F> {
    trace: u32,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for WithTrace<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let before = TRACE.replace(self.trace);
        let polled = self.future.as_mut().poll(context);
        TRACE.set(before);
        polled
    }
}

/// Says what it finds of the request's context, also after a pause.
#[idempotent(scope = account)]
async fn context(tx: &mut Connection, State(app): State<App>, account: Account) -> (StatusCode, String) {
    app.runs.begin();
    write(tx, &account).await;
    tokio::task::yield_now().await;
    tracing::info!("in the body");
    (StatusCode::CREATED, format!("{:?} {}", TENANT.try_with(|tenant| *tenant).ok(), TRACE.get()))
}

/// What a per-request subscriber has written.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sets all three for the future of each request.
fn routes(log: &Log) -> Router<App> {
    let log = log.clone();
    let layer = from_fn(move |request: Request, next: Next| {
        let log = log.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || log.clone()).finish();
        let future = next.run(request).with_subscriber(Dispatch::new(subscriber));
        WithTrace { trace: 7, future: Box::pin(TENANT.scope("acme", future)) }
    });
    Router::new().route("/", post(context)).layer(layer)
}

type Running = BoxFuture<'static, Response>;

async fn service(log: &Log, defaults: impl FnOnce(Builder<Db>) -> Builder<Db>) -> Service {
    Service::of(routes(log), 1, defaults, || StatusCode::OK.into_response()).await
}

fn carry(parts: &Parts, future: Running) -> Running {
    assert!(parts.headers.contains_key(KEY), "the request's own parts");
    let future = TENANT.scope(TENANT.get(), future.with_current_subscriber());
    Box::pin(WithTrace { trace: TRACE.get(), future: Box::pin(future) })
}

#[tokio::test]
async fn without_a_hook_the_task_has_nothing_of_the_request() {
    let log = Log::default();
    let service = service(&log, plain).await;
    assert_eq!(service.post("/", "k", "").await.text(), "None 0");
}

#[tokio::test]
async fn a_hook_carries_task_locals_a_subscriber_and_a_trace_into_the_task() {
    let log = Log::default();
    let service = service(&log, |builder| builder.in_task(carry)).await;
    let first = service.post("/", "k", "").await;
    assert_eq!((first.status, first.text()), (201, "Some(\"acme\") 7"));
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert_eq!(text.matches("in the body").count(), 1, "{text}");
    assert_eq!(text.matches("outcome=\"stored\"").count(), 1, "{text}");
    assert_replay(&first, &service.post("/", "k", "").await);
    assert_eq!(service.counts().await, (1, 1, 1));
}

#[tokio::test]
async fn a_hook_that_panics_is_a_response_and_the_key_is_free() {
    let service = service(&Log::default(), |builder| builder.in_task(|_, _| panic!("no context"))).await;
    assert_problem(&service.post("/", "k", "").await, 500, "idempotency-handler-panicked");
    assert_eq!(service.counts().await, (0, 0, 0));
}
