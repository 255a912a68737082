//! Every row of the README's table "What the client gets", and the order in which responses are decided.
//! Expiry is in `lifetime`, other scopes in `scope`, a lost COMMIT in the tests with a proxy.

use std::{convert::Infallible, time::Duration};

use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, FromRequest, Request, State},
    http::StatusCode,
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{any, post},
};
use idem_runtime::idempotent;
use idem_tests::{
    http::{self, RawResponse},
    soon,
};
use serde::Deserialize;
use tokio::task::JoinHandle;
use tower_http::limit::RequestBodyLimitLayer;

use super::{Connection, app::*};

mod bodies;

fn routes() -> Router<App> {
    Router::new().route("/pay", any(pay)).route("/refund", post(refund)).route("/hold", post(hold))
}

#[tokio::test]
async fn a_new_key_runs_once_and_is_replayed_from_then_on() {
    let service = Service::start(routes()).await;
    let first = service.post("/pay", "k", "1999").await;
    assert_eq!((first.status, first.text()), (201, "run 1 for alice"));
    for _ in 0..3 {
        assert_replay(&first, &service.post("/pay", "k", "1999").await);
    }
    assert_eq!(service.counts().await, (1, 1, 1));
    assert_eq!(service.post("/pay", "other", "1999").await.text(), "run 2 for alice");
    assert_eq!(service.counts().await, (2, 2, 2));
}

#[tokio::test]
async fn b68_another_instance_replays_what_the_first_stored() {
    let service = Service::start(routes()).await;
    let first = service.post("/pay", "k", "1").await;
    let other = service.beside(routes()).await;
    assert_replay(&first, &other.post("/pay", "k", "1").await);
    assert_problem(&other.post("/pay", "k", "2").await, 422, "idempotency-key-reuse");
    assert_eq!(service.counts().await, (1, 1, 1));
}

#[tokio::test]
async fn b38_a_running_twin_is_409_at_once_and_needs_no_connection() {
    let service = Service::of(routes(), 1, plain, || StatusCode::OK.into_response()).await;
    let first = service.posting("/hold", "k", "");
    service.app.gate.entered().await;
    // The only connection is the first one's, and the first one is at the gate.
    assert_problem(&service.post("/hold", "k", "").await, 409, "in-progress");
    assert!(!first.is_finished());
    service.app.gate.open();
    let first = soon("the first answer", first).await.unwrap();
    assert_eq!(first.status, 201);
    assert_replay(&first, &service.post("/hold", "k", "").await);
    assert_eq!(service.counts().await, (1, 1, 1));
}

#[tokio::test]
async fn b18_another_request_under_a_running_key_is_422_before_409() {
    let service = Service::of(routes(), 1, plain, || StatusCode::OK.into_response()).await;
    let first = service.posting("/hold", "k", "one");
    service.app.gate.entered().await;
    assert_problem(&service.post("/hold", "k", "two").await, 422, "idempotency-key-reuse");
    assert_problem(&service.post("/pay", "k", "one").await, 422, "idempotency-key-reuse");
    assert_problem(&service.post("/hold", "k", "one").await, 409, "in-progress");
    service.app.gate.open();
    let first = soon("the first answer", first).await.unwrap();
    assert_replay(&first, &service.post("/hold", "k", "one").await);
    assert_eq!(service.counts().await, (1, 1, 1));
}

#[tokio::test]
async fn a_reused_key_is_422_and_the_first_record_is_untouched() {
    let service = Service::start(routes()).await;
    let first = service.post("/pay", "k", "1999").await;
    for (method, path, body) in [
        ("POST", "/pay", "2999"),
        ("POST", "/pay?dry=1", "1999"),
        ("POST", "/refund", "1999"),
        ("PATCH", "/pay", "1999"),
        ("POST", "/pay", ""),
    ] {
        let other = service.send(method, path, &[ALICE, (KEY, "k")], body).await;
        assert_problem(&other, 422, "idempotency-key-reuse");
    }
    assert_replay(&first, &service.post("/pay", "k", "1999").await);
    assert_eq!(service.counts().await, (1, 1, 1));
}

#[tokio::test]
async fn no_key_is_400_and_nothing_runs() {
    let service = Service::start(routes()).await;
    assert_problem(&service.send("POST", "/pay", &[ALICE], "1").await, 400, "idempotency-key-missing");
    assert_problem(&service.send("PATCH", "/pay", &[ALICE], "1").await, 400, "idempotency-key-missing");
    assert_eq!(service.counts().await, (0, 0, 0));
}

#[tokio::test]
async fn b07_other_methods_ignore_the_key_and_run_each_time() {
    let service = Service::start(routes()).await;
    service.post("/pay", "k", "1").await;
    let mut runs = 1;
    for method in ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE"] {
        for headers in [&[ALICE, (KEY, "k")][..], &[ALICE, (KEY, "no, key")], &[ALICE]] {
            let response = service.send(method, "/pay", headers, "").await;
            runs += 1;
            assert_eq!((response.status, response.all("idempotent-replayed").len()), (201, 0), "{method}");
            if method != "HEAD" {
                assert_eq!(response.text(), format!("run {runs} for alice"));
            }
        }
    }
    assert_eq!(service.counts().await, (runs, i64::try_from(runs).unwrap(), 1));
}

#[derive(Deserialize)]
struct Payment {
    amount: u32,
}

#[idempotent(scope = account)]
async fn typed(
    tx: &mut Connection,
    State(app): State<App>,
    account: Account,
    Json(payment): Json<Payment>,
) -> (StatusCode, String) {
    app.runs.begin();
    write(tx, &account).await;
    (StatusCode::CREATED, payment.amount.to_string())
}

/// A layer that turns everyone away who says so.
async fn limited(request: Request, next: Next) -> Response {
    match request.headers().contains_key("x-too-fast") {
        true => StatusCode::TOO_MANY_REQUESTS.into_response(),
        false => next.run(request).await,
    }
}

#[tokio::test]
async fn b34_what_is_rejected_before_the_body_leaves_the_key_free() {
    let router = Router::new().route("/", post(typed)).layer(middleware::from_fn(limited));
    let service = Service::start(router).await;
    let key = (KEY, "k");
    let text = ("content-type", "text/plain");
    for (headers, body, status) in [
        (&[key][..], r#"{"amount":1}"#, 401),
        (&[ALICE, key], r#"{"amount":"#, 400),
        (&[ALICE, key], r#"{"amount":"one"}"#, 422),
        (&[ALICE, key, text], r#"{"amount":1}"#, 415),
        (&[ALICE, key, ("x-too-fast", "1")], r#"{"amount":1}"#, 429),
    ] {
        let rejected = service.send("POST", "/", headers, body).await;
        let own = rejected.header("content-type") == Some("application/problem+json");
        assert_eq!((rejected.status, own), (status, false), "{}", rejected.text());
        assert_eq!(service.counts().await, (0, 0, 0));
    }
    let first = service.post("/", "k", r#"{"amount":1}"#).await;
    assert_eq!((first.status, first.text()), (201, "1"));
    assert_eq!(service.counts().await, (1, 1, 1));
    // And a rejection afterwards neither replays nor disturbs.
    assert_eq!(service.send("POST", "/", &[key], r#"{"amount":1}"#).await.status, 401);
    assert_replay(&first, &service.post("/", "k", r#"{"amount":1}"#).await);
    assert_eq!(service.counts().await, (1, 1, 1));
}

#[tokio::test]
async fn extractors_answer_before_the_key_is_looked_at() {
    let service = Service::start(Router::new().route("/", post(typed))).await;
    for bad in [&[][..], &[(KEY, "\"bad")]] {
        assert_eq!(service.send("POST", "/", bad, r#"{"amount":1}"#).await.status, 401);
        let headers: Vec<_> = [&[ALICE], bad].concat();
        let rejected = service.send("POST", "/", &headers, r#"{"amount":"one"}"#).await;
        assert_eq!(rejected.status, 422);
        assert_ne!(rejected.header("content-type"), Some("application/problem+json"));
    }
    assert_problem(&service.send("POST", "/", &[ALICE], r#"{"amount":1}"#).await, 400, "idempotency-key-missing");
    assert_eq!(service.counts().await, (0, 0, 0));
}

/// The head of Alice's request with a body in chunks.
fn chunked(path: &str) -> String {
    let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer alice\r\n{KEY}: k\r\n");
    head + "transfer-encoding: chunked\r\n\r\n"
}

#[tokio::test]
async fn a_request_over_a_limit_is_413_with_and_without_a_body_extractor() {
    for routes in [routes().layer(DefaultBodyLimit::max(100)), routes().layer(RequestBodyLimitLayer::new(100))] {
        let service = Service::start(routes).await;
        for path in ["/pay", "/refund"] {
            assert_eq!(service.post(path, "k", "x".repeat(101)).await.status, 413, "{path}");
            let mut connection = http::Connection::open(service.address()).await;
            connection.send(chunked(path).as_bytes()).await;
            let chunk = "x".repeat(64);
            connection.send(format!("40\r\n{chunk}\r\n40\r\n{chunk}\r\n0\r\n\r\n").as_bytes()).await;
            assert_eq!(connection.response().await.status, 413, "{path}");
        }
        assert_eq!(service.counts().await, (0, 0, 0));
        assert_eq!(service.post("/refund", "k", "x".repeat(100)).await.status, 201);
        assert_eq!(service.counts().await, (1, 1, 1));
    }
}

#[tokio::test]
async fn b49_an_exhausted_pool_is_503_in_bounded_time() {
    let patience = |builder: idem_runtime::Builder<_>| builder.database_timeout(Duration::from_secs(1));
    let service = Service::of(routes(), 1, patience, || StatusCode::OK.into_response()).await;
    let taken = service.pool.acquire().await.unwrap();
    for (method, key) in [("POST", &[(KEY, "k")][..]), ("GET", &[])] {
        let headers = [&[ALICE], key].concat();
        let refused: RawResponse = service.send(method, "/pay", &headers, "1").await;
        assert_problem(&refused, 503, "idempotency-store-unavailable");
    }
    drop(taken);
    assert_eq!(service.counts().await, (0, 0, 0));
    assert_eq!(service.post("/pay", "k", "1").await.status, 201);
    assert_eq!(service.counts().await, (1, 1, 1));
}

#[tokio::test]
async fn b53_a_missing_table_is_500_and_nothing_runs() {
    let service = Service::start(routes()).await;
    service.execute("ALTER TABLE idem_records RENAME TO elsewhere").await;
    assert_problem(&service.post("/pay", "k", "1").await, 500, "idempotency-schema");
    service.execute("ALTER TABLE elsewhere RENAME TO idem_records").await;
    assert_eq!(service.counts().await, (0, 0, 0));
    assert_eq!(service.post("/pay", "k", "1").await.status, 201);
    assert_eq!(service.counts().await, (1, 1, 1));
}

#[tokio::test]
async fn b53_a_closed_store_is_503() {
    let service = Service::start(routes()).await;
    service.pool.close().await;
    assert_problem(&service.post("/pay", "k", "1").await, 503, "idempotency-store-unavailable");
    assert_eq!(service.app.runs.count(), 0);
}

#[tokio::test]
async fn idems_own_answers_hold_neither_key_nor_scope_nor_body() {
    let service = Service::start(routes()).await;
    service.post("/pay", "secret-key", "secret-body").await;
    for (key, body) in [("secret-key", "other secret-body"), ("\"secret-key", "secret-body"), ("secret-\u{e9}", "")] {
        let text = service.post("/pay", key, body).await.text().to_owned();
        assert!(!text.contains("secret") && !text.contains("alice"), "{text}");
    }
}
