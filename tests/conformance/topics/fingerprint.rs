//! What makes two requests under one key the same: bytes, canonical JSON, or what the handler declares.
//! Whatever the rule, a difference is 422 and never a second run.

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{StatusCode, request::Parts},
    routing::{any, post},
};
use idem_runtime::idempotent;
use idem_tests::http::Connection as Socket;
use tower_http::decompression::RequestDecompressionLayer;

use super::{Connection, app::*};

mod differs;

#[idempotent(scope = account, fingerprint = json)]
async fn json(tx: &mut Connection, State(app): State<App>, account: Account, _: Bytes) -> (StatusCode, String) {
    app.runs.begin();
    write(tx, &account).await;
    (StatusCode::CREATED, format!("run {} for {}", app.runs.count(), account.0))
}

/// Everything but the time at which the client sent it.
fn without_sent_at(_: &Parts, body: &Bytes) -> Vec<u8> {
    let mut value: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    value.as_object_mut().map(|members| members.remove("sentAt"));
    value.to_string().into_bytes()
}

#[idempotent(scope = account, fingerprint = without_sent_at)]
async fn declared(tx: &mut Connection, State(app): State<App>, account: Account, _: Bytes) -> (StatusCode, String) {
    app.runs.begin();
    write(tx, &account).await;
    (StatusCode::CREATED, format!("run {} for {}", app.runs.count(), account.0))
}

/// The parts of a form, whatever stands between them.
fn without_boundary(parts: &Parts, body: &Bytes) -> Vec<u8> {
    let content_type = parts.headers["content-type"].to_str().unwrap_or_default();
    let boundary = content_type.split("boundary=").nth(1).unwrap_or_default();
    String::from_utf8_lossy(body).replace(boundary, "").into_bytes()
}

#[idempotent(scope = account, fingerprint = without_boundary)]
async fn upload(tx: &mut Connection, State(app): State<App>, account: Account, _: Bytes) -> (StatusCode, String) {
    app.runs.begin();
    write(tx, &account).await;
    (StatusCode::CREATED, format!("run {} for {}", app.runs.count(), account.0))
}

#[idempotent(scope = account, fingerprint = form)]
async fn form(tx: &mut Connection, State(app): State<App>, account: Account, _: Bytes) -> (StatusCode, String) {
    app.runs.begin();
    write(tx, &account).await;
    (StatusCode::CREATED, format!("run {} for {}", app.runs.count(), account.0))
}

fn routes() -> Router<App> {
    let router = Router::new().route("/pay", any(pay)).route("/json", post(json)).route("/declared", post(declared));
    let router = router.route("/upload", post(upload)).route("/form", post(form)).route("/gated", post(hold));
    router.route("/payments/{id}", any(pay))
}

const ORIGINAL: &str = r#"{"a":1,"b":{"c":[{"x":1,"y":2},2],"d":null},"n":9007199254740992,"u":"é"}"#;

/// Reads as JSON to the same members.
const SAME_JSON: [(&str, &str); 4] = [
    ("order", r#"{"u":"é","b":{"c":[{"x":1,"y":2},2],"d":null},"n":9007199254740992,"a":1}"#),
    ("nested order", r#"{"a":1,"b":{"d":null,"c":[{"x":1,"y":2},2]},"n":9007199254740992,"u":"é"}"#),
    ("order in an array", r#"{"a":1,"b":{"c":[{"y":2,"x":1},2],"d":null},"n":9007199254740992,"u":"é"}"#),
    (
        "white space",
        "{ \"a\" :1,\n\"b\":{\"c\":[{\"x\":1,\"y\":2},\t2],\"d\":null},\"n\":9007199254740992,\"u\":\"é\"}\n",
    ),
];

/// Another request, also as JSON.
const OTHER: [(&str, &str); 8] = [
    ("array order", r#"{"a":1,"b":{"c":[2,{"x":1,"y":2}],"d":null},"n":9007199254740992,"u":"é"}"#),
    ("null or absent", r#"{"a":1,"b":{"c":[{"x":1,"y":2},2]},"n":9007199254740992,"u":"é"}"#),
    ("1 or 1.0", r#"{"a":1.0,"b":{"c":[{"x":1,"y":2},2],"d":null},"n":9007199254740992,"u":"é"}"#),
    ("big integers", r#"{"a":1,"b":{"c":[{"x":1,"y":2},2],"d":null},"n":9007199254740993,"u":"é"}"#),
    ("a name twice", r#"{"a":1,"a":1,"b":{"c":[{"x":1,"y":2},2],"d":null},"n":9007199254740992,"u":"é"}"#),
    ("escaped", r#"{"a":1,"b":{"c":[{"x":1,"y":2},2],"d":null},"n":9007199254740992,"u":"\u00e9"}"#),
    (
        "byte order mark",
        "\u{feff}{\"a\":1,\"b\":{\"c\":[{\"x\":1,\"y\":2},2],\"d\":null},\"n\":9007199254740992,\"u\":\"é\"}",
    ),
    ("no JSON", r#"{"a":1,"#),
];

#[tokio::test]
async fn b11_in_bytes_every_difference_counts() {
    let service = Service::start(routes()).await;
    let first = service.post("/pay", "k", ORIGINAL).await;
    for (what, body) in SAME_JSON.into_iter().chain(OTHER) {
        let other = service.post("/pay", "k", body).await;
        assert_eq!(other.status, 422, "{what}");
        assert_problem(&other, 422, "idempotency-key-reuse");
    }
    assert_replay(&first, &service.post("/pay", "k", ORIGINAL).await);
    assert_eq!(service.counts().await, (1, 1, 1));
}

#[tokio::test]
async fn b11_in_json_order_and_white_space_do_not_count() {
    let service = Service::start(routes()).await;
    let first = service.post("/json", "k", ORIGINAL).await;
    for (what, body) in SAME_JSON {
        let same = service.post("/json", "k", body).await;
        assert_eq!(same.status, 201, "{what}");
        assert_replay(&first, &same);
    }
    for (what, body) in OTHER {
        let other = service.post("/json", "k", body).await;
        assert_eq!(other.status, 422, "{what}");
        assert_problem(&other, 422, "idempotency-key-reuse");
    }
    assert_eq!(service.counts().await, (1, 1, 1));
}

#[tokio::test]
async fn b11_a_body_that_is_no_json_counts_by_its_bytes_under_the_json_rule() {
    let service = Service::start(routes()).await;
    let first = service.post("/json", "k", "amount=1999").await;
    assert_replay(&first, &service.post("/json", "k", "amount=1999").await);
    assert_problem(&service.post("/json", "k", "amount=1998").await, 422, "idempotency-key-reuse");
    assert_problem(&service.post("/json", "k", "").await, 422, "idempotency-key-reuse");
    assert_problem(&service.post("/json?x=1", "k", "amount=1999").await, 422, "idempotency-key-reuse");
    assert_eq!(service.counts().await, (1, 1, 1));
}

#[tokio::test]
async fn b12_the_query_counts_as_it_was_sent() {
    for (first, others) in [
        ("/pay", &["/pay?", "/pay?dry=1"][..]),
        ("/pay?", &["/pay", "/pay?x"]),
        ("/pay?a=1&b=A", &["/pay?b=A&a=1", "/pay?a=1&b=%41", "/pay?a=1&b=A&", "/pay?a=1"]),
    ] {
        let service = Service::start(routes()).await;
        let answer = service.post(first, "k", "1").await;
        for other in others {
            let reused = service.post(other, "k", "1").await;
            assert_eq!(reused.status, 422, "{first} and {other}");
            assert_problem(&reused, 422, "idempotency-key-reuse");
        }
        assert_replay(&answer, &service.post(first, "k", "1").await);
        assert_eq!(service.counts().await, (1, 1, 1));
    }
}

#[tokio::test]
async fn b13_another_route_path_or_method_is_422() {
    let service = Service::start(Router::new().merge(routes()).nest("/v1", routes()).nest("/v2", routes())).await;
    let first = service.post("/v1/payments/1", "k", "1").await;
    for (method, path) in [
        ("POST", "/v1/payments/2"),
        ("POST", "/v1/payments/%31"),
        ("POST", "/v2/payments/1"),
        ("POST", "/payments/1"),
        ("POST", "/v1/json"),
        ("PATCH", "/v1/payments/1"),
    ] {
        let other = service.send(method, path, &[ALICE, (KEY, "k")], "1").await;
        assert_eq!(other.status, 422, "{method} {path}");
        assert_problem(&other, 422, "idempotency-key-reuse");
    }
    assert_replay(&first, &service.post("/v1/payments/1", "k", "1").await);
    assert_eq!(service.counts().await, (1, 1, 1));
}

#[tokio::test]
async fn b15_a_new_timestamp_is_422_unless_the_handler_declares_what_counts() {
    let service = Service::start(routes()).await;
    let sent = |at| format!(r#"{{"amount":1,"sentAt":{at}}}"#);
    service.post("/pay", "k", sent(1)).await;
    let reused = service.post("/pay", "k", sent(2)).await;
    assert_problem(&reused, 422, "idempotency-key-reuse");
    assert!(reused.text().contains("body"), "says what differs: {}", reused.text());
    assert_eq!(service.counts().await, (1, 1, 1));

    let first = service.post("/declared", "d", sent(1)).await;
    assert_replay(&first, &service.post("/declared", "d", sent(2)).await);
    assert_problem(&service.post("/declared", "d", r#"{"amount":2}"#).await, 422, "idempotency-key-reuse");
    assert_eq!(service.counts().await, (2, 2, 2));
}

#[tokio::test]
async fn b15_a_fresh_boundary_is_422_unless_the_handler_compares_the_parts_or_declares_what_counts() {
    let service = Service::start(routes()).await;
    let send = async |path, key, boundary: &str, file: &str| {
        let content_type = format!("multipart/form-data; boundary={boundary}");
        let part = "Content-Disposition: form-data; name=\"f\"";
        let body = format!("--{boundary}\r\n{part}\r\n\r\n{file}\r\n--{boundary}--\r\n");
        service.send("POST", path, &[ALICE, (KEY, key), ("content-type", &content_type)], body).await
    };
    send("/pay", "k", "aaaa", "file").await;
    assert_problem(&send("/pay", "k", "bbbb", "file").await, 422, "idempotency-key-reuse");
    for path in ["/upload", "/form"] {
        let first = send(path, path, "aaaa", "file").await;
        assert_replay(&first, &send(path, path, "bbbb", "file").await);
        assert_problem(&send(path, path, "cccc", "other file").await, 422, "idempotency-key-reuse");
    }
    assert_eq!(service.counts().await, (3, 3, 3));
    // What is no form is compared byte for byte.
    let first = service.post("/form", "bytes", "a=1&b=2").await;
    assert_replay(&first, &service.post("/form", "bytes", "a=1&b=2").await);
    assert_problem(&service.post("/form", "bytes", "b=2&a=1").await, 422, "idempotency-key-reuse");
}

#[tokio::test]
async fn b16_headers_and_the_form_of_the_target_do_not_count() {
    let service = Service::start(routes()).await;
    let first = service.post("/pay", "k", "1").await;
    let key = (KEY, "k");
    for headers in [
        &[("authorization", "Bearer alice.refreshed"), key][..],
        &[ALICE, key, ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")],
        &[ALICE, key, ("user-agent", "other/2")],
        &[ALICE, key, ("x-forwarded-for", "192.0.2.1"), ("accept", "text/html"), ("content-type", "text/plain")],
        &[ALICE, key, ("content-type", "application/json; charset=utf-8")],
    ] {
        assert_replay(&first, &service.send("POST", "/pay", headers, "1").await);
    }
    for start in ["POST /pay HTTP/1.1\r\nhost: other:8443", "POST http://elsewhere/pay HTTP/1.1\r\nhost: elsewhere"] {
        let mut socket = Socket::open(service.address()).await;
        let rest = "authorization: Bearer alice\r\nidempotency-key: k\r\ncontent-length: 1\r\n\r\n1";
        socket.send(format!("{start}\r\n{rest}").as_bytes()).await;
        assert_replay(&first, &socket.response().await);
    }
    // How the body was cut into chunks is no difference either.
    let mut socket = Socket::open(service.address()).await;
    let head = "POST /pay HTTP/1.1\r\nhost: x\r\nauthorization: Bearer alice\r\nidempotency-key: k";
    socket.send(format!("{head}\r\ntransfer-encoding: chunked\r\n\r\n1\r\n1\r\n0\r\n\r\n").as_bytes()).await;
    assert_replay(&first, &socket.response().await);
    assert_eq!(service.counts().await, (1, 1, 1));
}

/// `{"amount":1999}`, compressed at level 1 and at level 9.
const LEVEL_1: &[u8] = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\xff\xab\x56\x4a\xcc\xcd\x2f\xcd\x2b\x51\xb2\x32\xb4\xb4\xb4\xac\x05\x00\xc4\x30\x35\xce\x0f\x00\x00\x00";
const LEVEL_9: &[u8] = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff\xab\x56\x4a\xcc\xcd\x2f\xcd\x2b\x51\xb2\x32\xb4\xb4\xb4\xac\x05\x00\xc4\x30\x35\xce\x0f\x00\x00\x00";

#[tokio::test]
async fn b22_with_decompression_in_front_the_content_counts() {
    let layer = RequestDecompressionLayer::new().gzip(true);
    for (router, replays) in [(routes().layer(layer), true), (routes(), false)] {
        let service = Service::start(router).await;
        let send = async |body: &[u8], headers: &[(&str, &str)]| {
            service.send("POST", "/pay", &[&[ALICE, (KEY, "k")], headers].concat(), body).await
        };
        let gzip = [("content-encoding", "gzip")];
        let first = send(LEVEL_1, &gzip).await;
        assert_replay(&first, &send(LEVEL_1, &gzip).await);
        for again in [send(LEVEL_9, &gzip).await, send(br#"{"amount":1999}"#, &[]).await] {
            match replays {
                true => assert_replay(&first, &again),
                false => assert_problem(&again, 422, "idempotency-key-reuse"),
            }
        }
        assert_eq!(service.counts().await, (1, 1, 1));
    }
}

#[tokio::test]
async fn b22_an_empty_body_is_not_an_empty_object() {
    let service = Service::start(routes()).await;
    for path in ["/pay", "/json"] {
        let first = service.post(path, path, "").await;
        for body in ["{}", "null", " "] {
            assert_problem(&service.post(path, path, body).await, 422, "idempotency-key-reuse");
        }
        assert_replay(&first, &service.post(path, path, "").await);
    }
    assert_eq!(service.counts().await, (2, 2, 2));
}
