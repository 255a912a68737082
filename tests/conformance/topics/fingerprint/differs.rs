//! What a 422 says: which parts of the request differ, and nothing of what was sent.
//! A running request is compared only in its own process.

use super::{super::app::*, routes};

#[tokio::test]
async fn a_mismatch_says_which_part_differs() {
    let service = Service::start(routes()).await;
    service.post("/pay", "k", "1").await;
    service.post("/declared", "d", r#"{"amount":1}"#).await;
    for (method, target, key, body, differs) in [
        ("POST", "/pay", "k", "2", &["body"][..]),
        ("POST", "/pay?a", "k", "1", &["query"]),
        ("PATCH", "/payments/2?a", "k", "2", &["method", "path", "query", "body"]),
        // By the rule that made the record.
        ("POST", "/json", "k", "1", &["path"]),
        ("POST", "/declared?a", "d", r#"{"amount":2}"#, &["fingerprint"]),
    ] {
        let reused = service.send(method, target, &[ALICE, (KEY, key)], body).await;
        assert_problem(&reused, 422, "idempotency-key-reuse");
        assert_eq!(reused.json()["differs"], serde_json::json!(differs), "{target}");
    }
    assert_eq!(service.counts().await, (2, 2, 2));
}

#[tokio::test]
async fn a_mismatch_with_a_running_request_says_so_where_that_is_known() {
    let service = Service::start(routes()).await;
    let first = service.posting("/gated", "k", "1");
    service.app.gate.entered().await;
    let reused = service.post("/gated?a", "k", "1").await;
    assert_problem(&reused, 422, "idempotency-key-reuse");
    assert_eq!(reused.json()["differs"], serde_json::json!(["query"]));
    service.app.gate.open();
    first.await.unwrap();
}
