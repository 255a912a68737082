//! The documented order of layers, with tower-http's: tracing, then CORS, then compression, and the routes inside.
//! A preflight is answered before anything looks at the database; what is stored is what the handler answered.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Json, Router,
    body::Body,
    http::{HeaderName, Method, Request, Response, StatusCode, header},
    routing::post,
};
use http_body_util::BodyExt;
use idem_openapi::app::{Account, App, Order, app};
use idem_runtime::{headers, idempotent};
use sqlx::{SqliteConnection, SqlitePool};
use tower::ServiceExt;
use tower_http::{compression::CompressionLayer, cors::CorsLayer, trace::TraceLayer};
use tracing::Span;

/// Long enough to be compressed.
const RECEIPT: &str = "a receipt, a receipt, a receipt, a receipt, a receipt, a receipt, a receipt, a receipt";

#[idempotent(scope = account)]
async fn pay(account: Account, tx: &mut SqliteConnection, Json(order): Json<Order>) -> String {
    let _ = tx;
    format!("{RECEIPT} for {}", order.amount)
}

type Traced = Arc<Mutex<Vec<(StatusCode, bool)>>>;

fn layered(app: App, traced: &Traced) -> Router {
    let own = [header::AUTHORIZATION, header::CONTENT_TYPE];
    let cors = CorsLayer::new()
        .allow_origin(["https://shop.example".parse().expect("an origin")])
        .allow_methods([Method::POST])
        .allow_headers(own.into_iter().chain(headers::allowed()).collect::<Vec<HeaderName>>())
        .expose_headers(headers::exposed());
    let traced = Arc::clone(traced);
    let trace = TraceLayer::new_for_http().on_response(move |response: &Response<_>, _: Duration, _: &Span| {
        let replayed = response.headers().contains_key("idempotent-replayed");
        traced.lock().expect("no panic").push((response.status(), replayed));
    });
    Router::new().route("/payments", post(pay)).layer(CompressionLayer::new()).layer(cors).layer(trace).with_state(app)
}

fn preflight() -> Request<Body> {
    let request = Request::builder().method(Method::OPTIONS).uri("/payments").header("origin", "https://shop.example");
    let request = request.header("access-control-request-method", "POST");
    request
        .header("access-control-request-headers", "idempotency-key,content-type")
        .body(Body::empty())
        .expect("a request")
}

fn payment(encoding: &str, amount: i64) -> Request<Body> {
    let request = Request::builder().method(Method::POST).uri("/payments").header("origin", "https://shop.example");
    let request = request.header("authorization", "ada").header("idempotency-key", "order-1");
    let request = request.header("content-type", "application/json").header("accept-encoding", encoding);
    request.body(Body::from(format!("{{\"amount\":{amount}}}"))).expect("a request")
}

async fn records(pool: &SqlitePool) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM idem_records").fetch_one(pool).await.expect("a count")
}

/// The names in a header that lists names.
fn listed(response: &Response<Body>, header: &str) -> Vec<String> {
    let list = response.headers()[header].to_str().expect("names");
    list.split(',').map(|name| name.trim().to_ascii_lowercase()).collect()
}

#[tokio::test]
async fn preflight_does_not_touch_the_store() {
    let (app, pool) = app(|defaults| defaults).await;
    let traced = Traced::default();
    let router = layered(app, &traced);

    // The store cannot be reached: a request that uses it gets a 503.
    pool.close().await;
    let answer = router.clone().oneshot(preflight()).await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::OK);
    let allowed = listed(&answer, "access-control-allow-headers");
    for name in ["idempotency-key", "content-type"] {
        assert!(allowed.iter().any(|one| one == name), "{name}: {allowed:?}");
    }

    let answer = router.oneshot(payment("identity", 5)).await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(answer.headers().contains_key("retry-after"));
    assert!(listed(&answer, "access-control-expose-headers").contains(&"retry-after".to_owned()));
    assert_eq!(*traced.lock().expect("no panic"), [(StatusCode::OK, false), (StatusCode::SERVICE_UNAVAILABLE, false)]);
}

#[tokio::test]
async fn b30_b33_layers_outside_see_replays_and_change_nothing_that_is_stored() {
    let (app, pool) = app(|defaults| defaults).await;
    let traced = Traced::default();
    let router = layered(app, &traced);

    let answer = router.clone().oneshot(preflight()).await.expect("an answer");
    assert_eq!((answer.status(), records(&pool).await), (StatusCode::OK, 0));

    let first = router.clone().oneshot(payment("gzip", 5)).await.expect("an answer");
    assert_eq!(
        (first.status(), &first.headers()["content-encoding"]),
        (StatusCode::OK, &"gzip".parse().expect("a value"))
    );
    let first = first.into_body().collect().await.expect("a body").to_bytes();
    assert_ne!(first, format!("{RECEIPT} for 5"), "it is compressed");
    let stored: Vec<u8> = sqlx::query_scalar("SELECT body FROM idem_records").fetch_one(&pool).await.expect("a record");
    assert_eq!(stored, format!("{RECEIPT} for 5").into_bytes(), "what is stored is what the handler answered");

    let replay = router.clone().oneshot(payment("identity", 5)).await.expect("an answer");
    assert!(replay.headers().get("content-encoding").is_none());
    assert_eq!(replay.headers()["idempotent-replayed"], "true");
    assert!(listed(&replay, "access-control-expose-headers").contains(&"idempotent-replayed".to_owned()));
    let replay = replay.into_body().collect().await.expect("a body").to_bytes();
    assert_eq!(replay, format!("{RECEIPT} for 5"));

    let reuse = router.oneshot(payment("gzip", 6)).await.expect("an answer");
    assert_eq!(reuse.status(), StatusCode::UNPROCESSABLE_ENTITY);
    assert!(reuse.headers().get("idempotent-replayed").is_none());
    let seen = traced.lock().expect("no panic").clone();
    let ok = StatusCode::OK;
    assert_eq!(seen, [(ok, false), (ok, false), (ok, true), (StatusCode::UNPROCESSABLE_ENTITY, false)]);
}
