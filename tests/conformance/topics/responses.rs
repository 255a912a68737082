//! The stored answer is the first one: status, every end-to-end header in order with repeats, the exact body.
//! And the answers that cannot be stored: too large, endless, failing midway.

use std::{
    convert::Infallible,
    io,
    sync::atomic::{AtomicUsize, Ordering},
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Path, Request, State},
    http::{HeaderValue, StatusCode, header},
    middleware::{self, Next},
    response::{AppendHeaders, IntoResponse, Response, Sse, sse::Event},
    routing::post,
};
use futures_util::{StreamExt, stream};
use idem_runtime::idempotent;
use idem_tests::http::RawResponse;
use tower::{ServiceExt, service_fn};
use tower_http::{compression::CompressionLayer, decompression::DecompressionLayer};

use super::{Connection, app::*};

mod streams;

#[tokio::test]
async fn b23_every_header_line_returns_in_order() {
    let service = Service::saying(|| {
        let lines = AppendHeaders([
            ("set-cookie", "a=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT"),
            ("content-disposition", "attachment; filename=\"a, b.pdf\""),
            ("link", "</1>; rel=prev"),
            ("x-last", ""),
            ("set-cookie", "b=2; Expires=Thu, 22 Oct 2026 07:28:00 GMT"),
            ("link", "</3>; rel=next"),
        ]);
        let odd = HeaderValue::from_bytes(b"caf\xe9 \x80").unwrap();
        (lines, AppendHeaders([("x-odd", odd)]), "body")
    })
    .await;
    let first = service.post("/", "k", "").await;
    let again = service.post("/", "k", "").await;
    assert_replay(&first, &again);
    assert_eq!(again.all("set-cookie").len(), 2);
    assert_eq!(again.all("link"), [&b"</1>; rel=prev"[..], b"</3>; rel=next"]);
    assert_eq!(again.all("x-odd"), [b"caf\xe9 \x80"]);
    assert_eq!(again.all("x-last"), [b""]);
    assert_eq!(service.counts().await, (1, 1, 1));
}

/// A layer outside: it numbers every answer.
async fn number(request: Request, next: Next) -> Response {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let mut response = next.run(request).await;
    response.headers_mut().append("x-number", COUNT.fetch_add(1, Ordering::SeqCst).into());
    response
}

#[tokio::test]
async fn b24_hop_by_hop_and_dates_are_not_stored_and_outer_layers_stay_fresh() {
    let answer = || {
        let end_to_end = [
            ("location", "/payments/1"),
            ("etag", "\"v1\""),
            ("www-authenticate", "Bearer"),
            ("retry-after", "7"),
            ("x-request-id", "handler"),
            ("set-cookie", "a=1"),
        ];
        let hop_by_hop = [
            ("date", "Thu, 01 Jan 1970 00:00:00 GMT"),
            ("connection", "x-hop, keep-alive"),
            ("x-hop", "1"),
            ("keep-alive", "timeout=5"),
            ("te", "trailers"),
            ("trailer", "x-sum"),
            ("proxy-authenticate", "Basic"),
            ("proxy-connection", "keep-alive"),
            ("upgrade", "h2c"),
        ];
        (StatusCode::CREATED, AppendHeaders(end_to_end), AppendHeaders(hop_by_hop), "body").into_response()
    };
    let router = Router::new().route("/", post(say)).layer(middleware::from_fn(number));
    let service = Service::of(router, 5, plain, answer).await;
    let first = service.post("/", "k", "").await;
    assert_eq!(first.header("date"), Some("Thu, 01 Jan 1970 00:00:00 GMT"));
    let again = service.post("/", "k", "").await;
    for name in ["location", "etag", "www-authenticate", "retry-after", "x-request-id", "set-cookie"] {
        assert!(again.header(name).is_some() && again.header(name) == first.header(name), "{name}");
    }
    for name in ["x-hop", "keep-alive", "te", "trailer", "proxy-authenticate", "proxy-connection", "upgrade"] {
        assert_eq!((first.all(name).len(), again.all(name).len()), (1, 0), "{name}");
    }
    assert_ne!(again.header("connection"), Some("x-hop, keep-alive"));
    assert_ne!(again.header("date"), Some("Thu, 01 Jan 1970 00:00:00 GMT"));
    assert!(again.header("date").is_some(), "the server's own");
    // Added outside: one line each time, and a new one.
    assert!(again.header("x-number").is_some() && again.header("x-number") != first.header("x-number"));
    assert_eq!((again.text(), again.header("content-length")), ("body", Some("4")));
    assert_eq!(service.counts().await, (1, 1, 1));
}

#[idempotent(scope = account, max_response = "18MiB")]
async fn echo(tx: &mut Connection, State(app): State<App>, account: Account, body: Bytes) -> Response {
    app.runs.begin();
    write(tx, &account).await;
    ([("content-type", "application/octet-stream")], body).into_response()
}

#[tokio::test]
async fn b25_b27_bodies_are_stored_as_bytes() {
    let service = Service::start(Router::new().route("/", post(echo))).await;
    let bodies: [&[u8]; 9] = [
        &(0..=255).collect::<Vec<u8>>(),
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
        b"\xff\xfe\xc3\x28",
        b"\0",
        b"",
        b"{\"b\":1,\"a\":1.0,\"a\":1e2}\n",
        b"{\"n\":12345678901234567890,\"z\":\"\\u0000\"}",
        b" [ 1 ] ",
        "\u{feff}\u{1f511}".as_bytes(),
    ];
    for (at, body) in bodies.into_iter().enumerate() {
        let key = format!("k{at}");
        let first = service.post("/", &key, body).await;
        assert_eq!((first.status, &*first.body), (200, body));
        assert_replay(&first, &service.post("/", &key, body).await);
    }
    assert_eq!(service.counts().await, (9, 9, 9));
}

#[idempotent(scope = account)]
async fn status(
    tx: &mut Connection,
    State(app): State<App>,
    account: Account,
    Path((status, kind)): Path<(u16, String)>,
) -> Response {
    app.runs.begin();
    write(tx, &account).await;
    let status = StatusCode::from_u16(status).unwrap();
    match &*kind {
        "text" => (status, "text").into_response(),
        "untyped" => (status, Body::from("untyped")).into_response(),
        _ => status.into_response(),
    }
}

#[tokio::test]
async fn b28_every_status_returns_with_and_without_a_body() {
    let service = Service::start(Router::new().route("/{status}/{kind}", post(status))).await;
    let mut runs = 0;
    for status in [200, 201, 202, 203, 204, 206, 301, 303, 304, 402, 404, 409, 410, 418, 422, 429, 500, 503, 599] {
        for kind in ["text", "untyped", "empty"] {
            let path = format!("/{status}/{kind}");
            let first = service.post(&path, &path, "").await;
            assert_eq!(first.status, status);
            assert_replay(&first, &service.post(&path, &path, "").await);
            assert_eq!(first.header("content-type").is_some(), kind == "text", "{path}");
            runs += 1;
        }
    }
    let (ran, _, records) = service.counts().await;
    assert_eq!((ran, records), (runs, i64::try_from(runs).unwrap()));
}

/// Undoes a content encoding, as a client does.
async fn decoded(response: &RawResponse) -> String {
    let mut encoded = Response::new(Body::from(response.body.clone()));
    if let Some(encoding) = response.header("content-encoding") {
        encoded.headers_mut().insert(header::CONTENT_ENCODING, encoding.parse().unwrap());
    }
    let encoded = std::sync::Mutex::new(Some(encoded));
    let answer = service_fn(|_: Request| {
        let response = encoded.lock().unwrap().take().unwrap();
        async move { Ok::<_, Infallible>(response) }
    });
    let client = tower::ServiceBuilder::new().layer(DecompressionLayer::new()).service(answer);
    let body = Body::new(client.oneshot(Request::default()).await.unwrap().into_body());
    String::from_utf8(axum::body::to_bytes(body, usize::MAX).await.unwrap().into()).unwrap()
}

#[tokio::test]
async fn b30_compression_outside_fits_each_client_and_is_not_stored() {
    let text = "a text that is worth compressing. ".repeat(100);
    let answer = text.clone();
    let router = Router::new().route("/", post(say)).layer(CompressionLayer::new());
    let service = Service::of(router, 5, plain, move || answer.clone().into_response()).await;
    for (at, (accepted, encoding)) in
        [("gzip", Some("gzip")), ("identity", None), ("br", Some("br")), ("gzip", Some("gzip"))].into_iter().enumerate()
    {
        let headers = [ALICE, (KEY, "k"), ("accept-encoding", accepted)];
        let response = service.send("POST", "/", &headers, "").await;
        assert_eq!((response.status, response.header("content-encoding")), (200, encoding));
        assert_eq!(response.all("idempotent-replayed").len(), usize::from(at > 0));
        assert_eq!(decoded(&response).await, text, "{accepted}");
    }
    let stored: Vec<u8> = sqlx::query_scalar("SELECT body FROM idem_records").fetch_one(&service.pool).await.unwrap();
    assert_eq!(stored, text.as_bytes());
    assert_eq!(service.counts().await, (1, 1, 1));
}

#[tokio::test]
async fn b32_a_body_is_exact_up_to_the_limit_and_refused_beyond() {
    const MIB: usize = 1024 * 1024;
    let size = std::sync::Arc::new(AtomicUsize::new(0));
    let chosen = size.clone();
    let answer = move || (0..chosen.load(Ordering::SeqCst)).map(|at| at.to_le_bytes()[0]).collect::<Vec<u8>>();
    let service = Service::saying(answer).await;
    for (run, bytes) in [(1, 65_535), (2, 65_536), (3, MIB)] {
        size.store(bytes, Ordering::SeqCst);
        let key = format!("k{run}");
        let first = service.post("/", &key, "").await;
        assert_eq!((first.status, first.body.len()), (200, bytes));
        assert_replay(&first, &service.post("/", &key, "").await);
        assert_eq!(service.counts().await.0, run);
    }
    size.store(MIB + 1, Ordering::SeqCst);
    assert_problem(&service.post("/", "over", "").await, 500, "idempotency-response-too-large");
    assert_eq!(service.counts().await, (4, 3, 3));
}

#[tokio::test]
async fn b32_a_larger_limit_stores_larger_bodies() {
    let router = Router::new().route("/", post(echo)).layer(axum::extract::DefaultBodyLimit::disable());
    let service = Service::start(router).await;
    let body = vec![b'x'; 17 * 1024 * 1024];
    let first = service.post("/", "k", &body).await;
    assert_eq!((first.status, first.body.len()), (200, body.len()));
    assert_replay(&first, &service.post("/", "k", &body).await);
    assert_eq!(service.counts().await, (1, 1, 1));
}

#[tokio::test]
async fn b73_an_answer_that_says_nothing_of_caches_is_no_store_first_and_replayed() {
    let silent = Service::saying(|| "mine").await;
    let speaking = Service::saying(|| ([("cache-control", "private, max-age=60")], "mine")).await;
    for (service, says) in [(silent, "no-store"), (speaking, "private, max-age=60")] {
        let first = service.post("/", "k", "").await;
        assert_eq!(first.header("cache-control"), Some(says));
        let again = service.post("/", "k", "").await;
        assert_eq!(again.header("cache-control"), Some(says));
        assert_replay(&first, &again);
    }
}
