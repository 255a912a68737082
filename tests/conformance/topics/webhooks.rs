//! Events by the attribute on a handler: once for each id, however often their sender delivers them.
//! A "delivery" is one request. What events share with other requests is tested there.

use axum::{
    Router,
    extract::{FromRequest, Request, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{any, post},
};
use idem_runtime::{Attempt, idempotent};
use idem_tests::{
    http::{self, RawResponse},
    soon,
};
use serde_json::json;

use super::{Connection, Db, app::*};

mod failures;

/// The provider is who `Authorization` names; the signature is over the body, and is its length.
struct Event {
    id: Option<String>,
}

impl<S: Send + Sync> FromRequest<S> for Event {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        let signature = request.headers().get("x-signature").and_then(|value| value.to_str().ok()?.parse().ok());
        let body = String::from_request(request, state).await.map_err(IntoResponse::into_response)?;
        if let Some(challenge) = body.strip_prefix("challenge=") {
            return Err(challenge.to_owned().into_response());
        }
        if signature != Some(body.len()) {
            return Err((StatusCode::UNAUTHORIZED, "not signed").into_response());
        }
        let body: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
        Ok(Self { id: body["id"].as_str().map(str::to_owned) })
    }
}

async fn received(tx: &mut Connection, app: &App, provider: &Account, event: &Event) -> Response {
    assert!(event.id.is_some(), "it was the key");
    app.runs.begin();
    write(tx, provider).await;
    (app.answer)()
}

#[idempotent(webhook, scope = provider, key = event.id)]
async fn receive(tx: &mut Connection, State(app): State<App>, provider: Account, event: Event) -> Response {
    received(tx, &app, &provider, &event).await
}

#[idempotent(webhook, scope = provider, key = event.id.as_ref(), replay = full)]
async fn receive_whole(tx: &mut Connection, State(app): State<App>, provider: Account, event: Event) -> Response {
    received(tx, &app, &provider, &event).await
}

#[idempotent(webhook, scope = provider, key = event.id, on_server_error = store)]
async fn receive_and_store(tx: &mut Connection, State(app): State<App>, provider: Account, event: Event) -> Response {
    received(tx, &app, &provider, &event).await
}

#[idempotent(webhook, scope = provider, key = event.id, on_client_error = release)]
async fn receive_in_any_order(
    tx: &mut Connection,
    State(app): State<App>,
    provider: Account,
    event: Event,
) -> Response {
    received(tx, &app, &provider, &event).await
}

#[idempotent(webhook, scope = provider, key = event.id, fingerprint = json)]
async fn receive_compared(tx: &mut Connection, State(app): State<App>, provider: Account, event: Event) -> Response {
    received(tx, &app, &provider, &event).await
}

#[idempotent(webhook, scope = provider, key = event.id)]
async fn receive_held(tx: &mut Connection, State(app): State<App>, provider: Account, event: Event) -> Response {
    let response = received(tx, &app, &provider, &event).await;
    app.gate.pass().await;
    response
}

#[idempotent(webhook, scope = provider, key = event.id, effects = external)]
async fn receive_elsewhere(
    attempt: &mut Attempt<Db>,
    State(app): State<App>,
    provider: Account,
    event: Event,
) -> Result<Response, StatusCode> {
    app.network.charge(attempt.key("charge"));
    let tx = attempt.transaction().await.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    Ok(received(tx, &app, &provider, &event).await)
}

async fn answering<R: IntoResponse>(answer: impl Fn() -> R + Send + Sync + 'static) -> Service {
    let router = Router::new()
        .route("/", any(receive))
        .route("/whole", post(receive_whole))
        .route("/store", post(receive_and_store))
        .route("/in_any_order", post(receive_in_any_order))
        .route("/compared", post(receive_compared))
        .route("/held", post(receive_held))
        .route("/elsewhere", post(receive_elsewhere));
    Service::of(router, 5, plain, move || answer().into_response()).await
}

async fn accepting() -> Service {
    answering(|| (StatusCode::ACCEPTED, [("x-receipt", "1")], "thank you")).await
}

/// One delivery of an event of Alice's, rightly signed.
async fn send(service: &Service, path: &str, id: &str) -> RawResponse {
    send_body(service, path, &json!({ "id": id }).to_string()).await
}

async fn send_body(service: &Service, path: &str, body: &str) -> RawResponse {
    service.send("POST", path, &[ALICE, ("x-signature", &body.len().to_string())], body).await
}

/// The status of the first run, and nothing more of it.
#[track_caller]
fn assert_known(response: &RawResponse, status: u16) {
    assert_eq!((response.status, response.body.len()), (status, 0), "{response:?}");
    assert_eq!(response.all("idempotent-replayed"), [b"true"]);
    assert_eq!(response.header("x-receipt"), None);
}

#[tokio::test]
async fn b83_a_known_event_is_answered_with_its_status_alone_and_does_not_run() {
    let service = accepting().await;
    let first = send(&service, "/", "e").await;
    assert_eq!((first.status, first.body.as_slice()), (202, &b"thank you"[..]));
    assert_eq!(first.header("x-receipt"), Some("1"));
    // Another process, and whatever the sender wraps around the id this time.
    let other = service.beside(Router::new().route("/", any(receive))).await;
    assert_known(&send(&service, "/", "e").await, 202);
    assert_known(&send_body(&other, "/", r#"{"id": "e", "attempt": 2}"#).await, 202);
    let body = r#"{"id": "e"}"#;
    let headers = [ALICE, ("x-signature", &*body.len().to_string()), (KEY, "not, a key")];
    assert_known(&service.send("PUT", "/?attempt=3", &headers, body).await, 202);
    assert_eq!(service.counts().await, (1, 1, 1));
}

#[tokio::test]
async fn a_known_event_is_answered_whole_where_that_is_asked_for() {
    let service = accepting().await;
    let first = send(&service, "/whole", "e").await;
    assert_replay(&first, &send(&service, "/whole", "e").await);
    assert_eq!(service.counts().await, (1, 1, 1));
}

#[tokio::test]
async fn an_event_that_is_not_signed_burns_no_id() {
    let service = accepting().await;
    let body = r#"{"id": "e"}"#;
    for headers in [&[ALICE][..], &[ALICE, ("x-signature", "1")], &[("x-signature", "11")]] {
        assert_eq!(service.send("POST", "/", headers, body).await.status, 401);
    }
    assert_eq!(service.counts().await, (0, 0, 0));
    assert_eq!(send(&service, "/", "e").await.status, 202);
    // Nor does it learn of one.
    assert_eq!(service.send("POST", "/", &[ALICE], body).await.status, 401);
    assert_eq!(service.counts().await, (1, 1, 1));
}

#[tokio::test]
async fn a_challenge_of_the_sender_is_echoed_and_takes_no_id() {
    let service = accepting().await;
    for _ in 0..2 {
        let response = service.send("POST", "/", &[ALICE], "challenge=abc").await;
        assert_eq!((response.status, response.body.as_slice()), (200, &b"abc"[..]));
        assert_eq!(response.header("idempotent-replayed"), None);
    }
    assert_eq!(service.counts().await, (0, 0, 0));
}

#[tokio::test]
async fn b84_an_event_that_is_in_progress_is_a_409_so_that_it_is_sent_again() {
    let service = accepting().await;
    let address = service.address();
    let first = tokio::spawn(async move {
        let body = r#"{"id":"e"}"#;
        http::post(address, "/held", &[ALICE, ("x-signature", "10")], body).await
    });
    service.app.gate.entered().await;
    assert_problem(&soon("an answer", send(&service, "/held", "e")).await, 409, "in-progress");
    service.app.gate.open();
    assert_eq!(first.await.unwrap().status, 202);
    assert_known(&send(&service, "/held", "e").await, 202);
    assert_eq!(service.counts().await, (1, 1, 1));
}

#[tokio::test]
async fn an_event_is_of_its_sender_and_its_handler() {
    let service = accepting().await;
    let body = r#"{"id":"e"}"#;
    for path in ["/", "/whole"] {
        assert_eq!(send(&service, path, "e").await.status, 202);
        assert_eq!(service.send("POST", path, &[BOB, ("x-signature", "10")], body).await.body, b"thank you");
    }
    assert_eq!(service.counts().await, (4, 4, 4));
}

#[tokio::test]
async fn an_event_without_id_is_refused() {
    let service = accepting().await;
    for body in [r"{}", r#"{"id": null}"#, r#"{"id": ""}"#] {
        assert_problem(&send_body(&service, "/", body).await, 400, "event-id-missing");
    }
    assert_eq!(service.counts().await, (0, 0, 0));
}

#[tokio::test]
async fn another_event_under_one_id_is_a_mismatch_where_events_are_compared() {
    let service = accepting().await;
    assert_eq!(send_body(&service, "/compared", r#"{"id": "e", "amount": 10}"#).await.status, 202);
    assert_known(&send_body(&service, "/compared", r#"{"amount":10,"id":"e"}"#).await, 202);
    let other = send_body(&service, "/compared", r#"{"id": "e", "amount": 99}"#).await;
    assert_problem(&other, 422, "idempotency-key-reuse");
    assert_eq!(service.counts().await, (1, 1, 1));
}

#[tokio::test]
async fn what_is_compared_may_change_under_a_record() {
    // Two releases of one handler: the second compares, or no longer does.
    #[idempotent(webhook, scope = provider, key = event.id, operation = "receive", fingerprint = json)]
    async fn compared(tx: &mut Connection, State(app): State<App>, provider: Account, event: Event) -> Response {
        received(tx, &app, &provider, &event).await
    }
    let service = accepting().await;
    let other = service.beside(Router::new().route("/", post(compared))).await;
    assert_eq!(send_body(&service, "/", r#"{"id": "old", "amount": 10}"#).await.status, 202);
    assert_known(&send_body(&other, "/", r#"{"id": "old", "amount": 99}"#).await, 202);
    assert_eq!(send_body(&other, "/", r#"{"id": "new", "amount": 10}"#).await.status, 202);
    assert_known(&send_body(&service, "/", r#"{"id": "new", "amount": 99}"#).await, 202);
    assert_eq!(service.counts().await, (2, 2, 2));
}

#[tokio::test]
async fn a_store_that_is_down_is_a_5xx_so_that_the_event_is_sent_again() {
    let service = accepting().await;
    assert_eq!(send(&service, "/", "known").await.status, 202);
    service.pool.close().await;
    for id in ["known", "new"] {
        assert_problem(&send(&service, "/", id).await, 503, "idempotency-store-unavailable");
    }
    assert_eq!(service.app.runs.count(), 1);
}

#[tokio::test]
async fn an_event_with_effects_elsewhere_runs_once() {
    let service = accepting().await;
    assert_eq!(send(&service, "/elsewhere", "e").await.status, 202);
    assert_known(&send(&service, "/elsewhere", "e").await, 202);
    assert_eq!((service.app.network.calls().len(), service.counts().await), (1, (1, 1, 1)));
}
