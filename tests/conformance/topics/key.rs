//! The key header: its two spellings, and everything that is not exactly one key.
//! What is malformed is 400 everywhere, runs nothing and sends no statement.

use std::collections::HashSet;

use axum::{
    Router,
    extract::State,
    http::StatusCode,
    routing::{get, post},
};
use idem_runtime::idempotent;
use idem_tests::{
    http::{Connection as Socket, RawResponse},
    keys,
};

use super::{Connection, app::*};

#[idempotent(scope = account, key = optional)]
async fn optional(tx: &mut Connection, State(app): State<App>, account: Account) -> (StatusCode, String) {
    app.runs.begin();
    write(tx, &account).await;
    (StatusCode::CREATED, format!("run {} for {}", app.runs.count(), account.0))
}

#[idempotent(scope = account, key_format = quoted)]
async fn strict(tx: &mut Connection, State(app): State<App>, account: Account) -> (StatusCode, String) {
    app.runs.begin();
    write(tx, &account).await;
    (StatusCode::CREATED, format!("run {} for {}", app.runs.count(), account.0))
}

async fn service() -> Service {
    let router = Router::new().route("/pay", post(refund)).route("/optional", post(optional));
    Service::start(router.route("/strict", post(strict)).route("/both", get(refund).post(refund))).await
}

/// A request whose key lines are any bytes.
async fn raw(service: &Service, path: &str, keys: &[&[u8]]) -> RawResponse {
    let mut connection = Socket::open(service.address()).await;
    let mut request = format!("POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer alice\r\n").into_bytes();
    for key in keys {
        request.extend([b"Idempotency-Key: ", *key, b"\r\n"].concat());
    }
    request.extend(b"content-length: 0\r\n\r\n");
    connection.send(&request).await;
    connection.response().await
}

#[tokio::test]
async fn b01_quoted_and_bare_are_one_key() {
    let service = service().await;
    let first = service.post("/pay", "\"abc\"", "").await;
    assert_replay(&first, &service.post("/pay", "abc", "").await);
    assert_replay(&first, &service.post("/pay", "\"abc\"", "").await);
    assert_eq!(service.counts().await, (1, 1, 1));
    // An escape is one character more, and only the quoted form can hold it.
    let first = raw(&service, "/pay", &[br#""a\"bc""#]).await;
    assert_eq!(first.status, 201);
    assert_replay(&first, &raw(&service, "/pay", &[br#""a\"bc""#]).await);
    assert_eq!(service.counts().await, (2, 2, 2));
    // White space around the field value is not part of it (RFC 9110, section 5.5); inside the quotes it is.
    assert_replay(&first, &raw(&service, "/pay", &[b"  \"a\\\"bc\" \t"]).await);
    assert_eq!(service.post("/pay", "\"abc \"", "").await.text(), "refund 3 for alice");
}

/// The client runs the same table.
#[tokio::test]
async fn b01_what_is_a_key_is_one_table() {
    let service = service().await;
    let mut expected = HashSet::new();
    for (line, key) in keys::lines() {
        let first = raw(&service, "/pay", &[line.as_bytes()]).await;
        let Some(key) = key else {
            assert_problem(&first, 400, "idempotency-key-malformed");
            continue;
        };
        assert_eq!(first.status, 201, "{line:?}");
        let again = raw(&service, "/pay", &[keys::quoted(&key).as_bytes()]).await;
        assert_eq!(again.header("idempotent-replayed"), Some("true"), "{line:?}");
        expected.insert(key);
    }
    let rows = i64::try_from(expected.len()).unwrap();
    assert_eq!(service.counts().await, (expected.len(), rows, rows));
}

#[tokio::test]
async fn b01_unbalanced_quotes_and_parameters_are_400() {
    let service = service().await;
    for bad in
        ["\"abc", "abc\"", "\"abc\"x", "\"abc\";v=1", "\"abc\" ;v=1", "a\"b", "\"a\\b\"", "\"\"\"", "?1", ":YQ==:"]
    {
        let answer = service.post("/pay", bad, "").await;
        match bad {
            // Visible ASCII: other structured-field types are bare keys.
            "?1" | ":YQ==:" => assert_eq!(answer.status, 201, "{bad}"),
            _ => assert_problem(&answer, 400, "idempotency-key-malformed"),
        }
    }
    assert_eq!(service.counts().await, (2, 2, 2));
}

#[tokio::test]
async fn b01_the_strict_form_takes_quoted_keys_only() {
    let service = service().await;
    assert_problem(&service.post("/strict", "abc", "").await, 400, "idempotency-key-malformed");
    assert_eq!(service.counts().await, (0, 0, 0));
    let first = service.post("/strict", "\"abc\"", "").await;
    assert_replay(&first, &service.post("/strict", "\"abc\"", "").await);
    assert_eq!(service.counts().await, (1, 1, 1));
}

#[tokio::test]
async fn b02_a_blank_key_is_400_also_where_the_key_is_optional() {
    let service = service().await;
    for path in ["/pay", "/optional"] {
        for blank in ["", "   ", "\"\"", "\"   \""] {
            assert_problem(&service.post(path, blank, "").await, 400, "idempotency-key-malformed");
        }
    }
    assert_eq!(service.counts().await, (0, 0, 0));
    assert_problem(&service.send("POST", "/pay", &[ALICE], "").await, 400, "idempotency-key-missing");
    for run in 1..=2 {
        let unprotected = service.send("POST", "/optional", &[ALICE], "").await;
        assert_eq!((unprotected.status, unprotected.text()), (201, &*format!("run {run} for alice")));
        assert_eq!(unprotected.header("idempotent-replayed"), None);
    }
    assert_eq!(service.counts().await, (2, 2, 0));
    let first = service.post("/optional", "k", "").await;
    assert_replay(&first, &service.post("/optional", "k", "").await);
    assert_eq!(service.counts().await, (3, 3, 1));
}

#[tokio::test]
async fn b03_every_other_byte_is_a_problem_document() {
    let service = service().await;
    // A closed pool: a statement would be 503.
    service.pool.close().await;
    let others = (0x80..=0xff).chain(*b"\t,; ").map(|byte| vec![b'a', byte, b'b']);
    for key in others.chain(["schl\u{fc}ssel", "\u{1f511}"].map(|key| key.as_bytes().to_vec())) {
        for path in ["/pay", "/optional"] {
            assert_problem(&raw(&service, path, &[&key]).await, 400, "idempotency-key-malformed");
        }
    }
    // A DEL is not even HTTP: hyper answers for itself.
    assert_eq!(raw(&service, "/pay", &[b"a\x7fb"]).await.status, 400);
    assert_eq!(service.app.runs.count(), 0);
}

#[tokio::test]
async fn b04_more_than_one_value_is_400() {
    let service = service().await;
    for lines in [&[&b"k"[..], b"k"][..], &[b"k", b"other"], &[b"k, k"], &[b"\"k\", \"k\""], &[b"k", b""], &[b"", b"k"]]
    {
        for path in ["/pay", "/optional"] {
            assert_problem(&raw(&service, path, lines).await, 400, "idempotency-key-malformed");
        }
    }
    assert_eq!(service.counts().await, (0, 0, 0));
    assert_eq!(raw(&service, "/pay", &[b"k"]).await.status, 201);
    assert_eq!(service.counts().await, (1, 1, 1));
}

#[tokio::test]
async fn b05_the_limit_is_255_characters_and_nothing_is_cut() {
    let service = service().await;
    let longest = "k".repeat(255);
    let first = service.post("/pay", &longest, "").await;
    assert_replay(&first, &service.post("/pay", &format!("\"{longest}\""), "").await);
    assert_eq!(service.counts().await, (1, 1, 1));
    let twins = [format!("{longest}{}", "x".repeat(45)), format!("{longest}{}", "y".repeat(45))];
    for long in [&format!("{longest}k"), &"k".repeat(64 * 1024), &twins[0], &twins[1]] {
        assert_problem(&service.post("/pay", long, "").await, 400, "idempotency-key-malformed");
    }
    // Keys that differ in their last character alone are two keys.
    assert_eq!(service.post("/pay", &format!("{}x", &longest[..254]), "").await.text(), "refund 2 for alice");
    assert_eq!(service.counts().await, (2, 2, 2));
}

#[tokio::test]
async fn b07_one_handler_for_get_and_post_replays_nothing_to_get_and_head() {
    let service = service().await;
    let posted = service.post("/both", "k", "").await;
    assert_eq!(service.send("GET", "/both", &[ALICE, (KEY, "k")], "").await.text(), "refund 2 for alice");
    let mut connection = Socket::open(service.address()).await;
    connection
        .send(b"HEAD /both HTTP/1.1\r\nhost: x\r\nauthorization: Bearer alice\r\nidempotency-key: k\r\n\r\n")
        .await;
    let head = connection.response_to_head().await;
    assert_eq!((head.status, head.header("idempotent-replayed")), (201, None));
    assert_eq!(connection.surplus().await, b"", "HEAD has no body");
    assert_replay(&posted, &service.post("/both", "k", "").await);
    assert_eq!(service.counts().await, (3, 3, 1));
}

#[tokio::test]
async fn b54_keys_differ_by_case_and_by_trailing_space() {
    let service = service().await;
    for (run, key) in ["abc", "ABC", "aBc", "\"abc \""].into_iter().enumerate() {
        assert_eq!(service.post("/pay", key, "").await.text(), format!("refund {} for alice", run + 1));
    }
    assert_eq!(service.counts().await, (4, 4, 4));
}

#[tokio::test]
async fn the_table_holds_no_key_and_no_account() {
    let service = service().await;
    service.post("/pay", "a-key-to-find", "a-body-to-find").await;
    let all = "SELECT id, fingerprint, headers, body, operation FROM idem_records";
    let (id, fingerprint, headers, body, operation): (Vec<u8>, Vec<u8>, Vec<u8>, Vec<u8>, String) =
        sqlx::query_as(all).fetch_one(&service.pool).await.unwrap();
    assert_eq!((id.len(), operation.as_str()), (32, "refund"));
    for column in [id, fingerprint, headers] {
        let text = String::from_utf8_lossy(&column).into_owned();
        assert!(!text.contains("to-find") && !text.contains("alice"), "{text}");
    }
    assert_eq!(body, b"refund 1 for alice", "the body is the handler's own");
}
