//! Drives a server from its own document: to each operation it sends what a client may send, and right and wrong keys, and
//! compares what comes back with what is declared.

use std::sync::atomic::{AtomicU32, Ordering};

use axum::{
    Router,
    body::Body,
    http::{HeaderMap, HeaderValue, Request, StatusCode},
};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use sqlx::SqlitePool;
use tower::ServiceExt;

use crate::{
    app::Gate,
    declared::{Declared, Operation, fits},
};

/// A server, and what it takes to disturb it.
pub struct Server {
    pub router: Router,
    pub gate: Gate,
    pub pool: SqlitePool,
    /// More bytes than any of its operations takes.
    pub too_many: usize,
}

pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn code(&self) -> String {
        let problem: Value = serde_json::from_slice(&self.body).expect("a problem document");
        problem["code"].as_str().expect("a code").to_owned()
    }

    pub fn is_replay(&self) -> bool {
        self.headers.contains_key("idempotent-replayed")
    }
}

impl Server {
    /// Sends a request to an operation, and checks that its response is declared.
    pub async fn send(&self, operation: &Operation<'_>, key: Option<&str>, body: &Value) -> Answer {
        let answer = self.send_bytes(operation, key, body.to_string().into_bytes()).await;
        operation.assert_declares(answer.status, &answer.headers, &answer.body);
        answer
    }

    async fn send_bytes(&self, operation: &Operation<'_>, key: Option<&str>, body: Vec<u8>) -> Answer {
        let path = operation.path.replace("{id}", "7");
        let mut request = Request::builder().method(operation.method.as_str()).uri(path);
        request = request.header("authorization", "ada").header("content-type", "application/json");
        if let Some(key) = key {
            request = request.header("Idempotency-Key", HeaderValue::from_str(key).expect("a header's value"));
        }
        let request = request.body(Body::from(body)).expect("a request");
        let response = self.router.clone().oneshot(request).await.expect("an answer");
        let (parts, body) = response.into_parts();
        let body = body.collect().await.expect("a body").to_bytes().to_vec();
        Answer { status: parts.status, headers: parts.headers, body }
    }

    /// Every operation of the document; then once more with the database gone.
    pub async fn drive(&self, document: &Declared) {
        let operations = document.operations();
        let (protected, others): (Vec<_>, Vec<_>) = operations.iter().partition(|one| one.key().is_some());
        assert!(!protected.is_empty() && !others.is_empty(), "nothing to compare");
        for operation in &protected {
            self.drive_protected(operation).await;
        }
        for operation in &others {
            self.drive_unprotected(operation).await;
        }
        self.pool.close().await;
        for operation in &protected {
            let answer = self.send(operation, Some(&new_key(operation)), &json!({ "amount": 1 })).await;
            assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{}", operation.name());
            assert!(answer.headers.contains_key("retry-after"));
        }
    }

    async fn drive_protected(&self, operation: &Operation<'_>) {
        let (name, key) = (operation.name(), new_key(operation));
        let (order, other) = (json!({ "amount": 5 }), json!({ "amount": 6 }));

        let keyless = self.send(operation, None, &order).await;
        if operation.key().expect("a key")["required"] == true {
            assert_eq!(
                (keyless.status, &*keyless.code()),
                (StatusCode::BAD_REQUEST, "idempotency-key-missing"),
                "{name}"
            );
        } else {
            assert!(keyless.status.is_success(), "{name}");
        }
        for malformed in malformed(operation) {
            let answer = self.send(operation, Some(&malformed), &order).await;
            assert_eq!(
                (answer.status, &*answer.code()),
                (StatusCode::BAD_REQUEST, "idempotency-key-malformed"),
                "{name}"
            );
        }

        let first = self.send(operation, Some(&key), &order).await;
        assert!(first.status.is_success() && !first.is_replay(), "{name}: {}", first.status);
        let replay = self.send(operation, Some(&key), &order).await;
        assert!(replay.is_replay(), "{name}");
        assert_eq!((replay.status, &replay.body), (first.status, &first.body), "{name}");
        let spaced = self.send_bytes(operation, Some(&key), b"{ \"amount\" : 5 }".to_vec()).await;
        assert_eq!(spaced.is_replay(), self.explained(operation).contains("white space"), "{name}");

        let reuse = self.send(operation, Some(&key), &other).await;
        assert_eq!(reuse.code(), "idempotency-key-reuse", "{name}");
        assert!(operation.codes(reuse.status.as_str()).contains(&"idempotency-key-reuse"), "{name}");

        self.drive_twin(operation).await;

        let large = self.send_bytes(operation, Some(&new_key(operation)), vec![b' '; self.too_many]).await;
        assert_eq!(large.status, StatusCode::PAYLOAD_TOO_LARGE, "{name}");
        operation.assert_declares(large.status, &large.headers, &large.body);
    }

    async fn drive_twin(&self, operation: &Operation<'_>) {
        let (key, held) = (new_key(operation), json!({ "amount": 5, "held": true }));
        let first = self.send(operation, Some(&key), &held);
        let twin = async {
            self.gate.arrived().await;
            let twin = self.send(operation, Some(&key), &held).await;
            self.gate.open();
            twin
        };
        let (first, twin) = tokio::join!(first, twin);
        assert!(first.status.is_success(), "{}", operation.name());
        assert_eq!((twin.status, &*twin.code()), (StatusCode::CONFLICT, "in-progress"), "{}", operation.name());
    }

    async fn drive_unprotected(&self, operation: &Operation<'_>) {
        for status in ["409", "503"] {
            assert!(!operation.statuses().contains(status), "{} has idem's {status}", operation.name());
        }
        for _ in 0..2 {
            let answer = self.send(operation, Some("unprotected"), &json!({ "amount": 1 })).await;
            assert!(answer.status.is_success() && !answer.is_replay(), "{}", operation.name());
        }
    }

    fn explained<'d>(&self, operation: &'d Operation<'_>) -> &'d str {
        operation.key().and_then(|key| key["description"].as_str()).expect("a description")
    }
}

/// A key of the form that the document asks for.
pub fn new_key(operation: &Operation<'_>) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let parameter = operation.key().expect("a key");
    let forms = [
        format!("order-{count}"),
        format!("\"order {count}\""),
        format!("f47ac10b-58cc-4372-a567-{count:012x}"),
        format!("01ARZ3NDEKTSV4RRFF{count:08}"),
    ];
    // The last that fits is the most special.
    forms.into_iter().rfind(|key| fits(parameter, key)).expect("a key that the document lets pass")
}

/// Keys that the document does not let pass, and that can be sent.
fn malformed(operation: &Operation<'_>) -> Vec<String> {
    let parameter = operation.key().expect("a key");
    let keys = ["a b", "a,b", "\"open", "\"\"", "\"  \"", "a;b=c"].map(str::to_owned);
    let long = [format!("a{}", "b".repeat(255))];
    keys.into_iter().chain(long).inspect(|key| assert!(!fits(parameter, key), "the document lets {key} pass")).collect()
}
