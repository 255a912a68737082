//! The document of the example `payments`, as its server sends it, and that server driven by nothing but its document.

use std::{collections::HashSet, net::SocketAddr};

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use idem_openapi::{
    declared::{Declared, Operation},
    driver::new_key,
};
use idem_tests::{
    databases::{postgres, sqlite},
    http::{self, RawResponse},
    process,
};
use serde_json::{Map, Value, json};

/// The example, and what its document says.
struct Example {
    address: SocketAddr,
    document: Declared,
}

impl Example {
    /// Fetches the document, and validates it.
    async fn at(address: SocketAddr) -> Self {
        let answer = http::get(address, "/openapi.json", &[]).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
        let document = Declared::of(&answer.json());
        // The validator's schema cannot say this.
        let (operations, mut ids) = (document.operations(), HashSet::new());
        assert!(operations.iter().all(|one| ids.insert(one.value["operationId"].as_str().expect("an id"))), "{ids:?}");
        Self { address, document }
    }

    /// A body of the examples that the document gives, but for one property.
    fn body(&self, operation: &Operation<'_>, name: &str, value: impl Into<Value>) -> Value {
        let body = &operation.value["requestBody"]["content"]["application/json"]["schema"];
        let properties = self.resolve(body)["properties"].as_object().expect("properties");
        let examples = properties.iter().filter_map(|(name, of)| Some((name.clone(), of.get("example")?.clone())));
        let mut body: Map<_, _> = examples.collect();
        assert!(properties.contains_key(name), "{}: no {name}", operation.name());
        body.insert(name.to_owned(), value.into());
        body.into()
    }

    /// Sends a request, and checks that its response is declared, and matches the declared schema.
    async fn send(&self, operation: &Operation<'_>, id: &str, key: Option<&str>, body: &Value) -> RawResponse {
        let (name, path) = (operation.name(), operation.path.replace("{id}", id));
        let mut headers = vec![("authorization", "Bearer ada")];
        headers.extend(key.map(|key| ("idempotency-key", key)));
        let answer = http::send(self.address, &operation.method, &path, &headers, body.to_string()).await;

        let pairs = answer.headers.iter().map(|(name, value)| {
            (name.parse::<HeaderName>().expect("a name"), HeaderValue::from_bytes(value).expect("a value"))
        });
        let headers: HeaderMap = pairs.collect();
        let status = StatusCode::from_u16(answer.status).expect("a status");
        operation.assert_declares(status, &headers, &answer.body);
        let media = &operation.response(status.as_str())["content"][answer.header("content-type").expect("a type")];
        let mut schema = media["schema"].clone();
        schema["components"] = self.document.0["components"].clone();
        let schema = jsonschema::draft202012::new(&schema).expect("a schema");
        assert!(schema.is_valid(&answer.json()), "{name} answers {}", answer.text());
        answer
    }

    fn resolve(&self, schema: &Value) -> &Value {
        let reference = schema["$ref"].as_str().and_then(|to| to.strip_prefix('#')).expect("a reference");
        self.document.0.pointer(reference).expect("what it refers to")
    }

    async fn drive(&self) {
        let operation = |method, path| self.document.operation(method, path);

        let pay = operation("POST", "/payments");
        assert_eq!(pay.key().expect("a key")["required"], true);
        let (order, key) = (self.body(&pay, "amount", 1999), new_key(&pay));
        let keyless = self.send(&pay, "", None, &order).await;
        assert_eq!((keyless.status, &keyless.json()["code"]), (400, &json!("idempotency-key-missing")));
        assert!(pay.codes("400").contains(&"idempotency-key-missing"));
        let paid = self.send(&pay, "", Some(&key), &order).await;
        assert_eq!((paid.status, paid.header("idempotent-replayed")), (201, None), "{}", paid.text());
        assert!(pay.response("201")["headers"].get("Idempotent-Replayed").is_some());
        assert!(pay.response("201")["headers"].get("Location").is_some());
        let replay = self.send(&pay, "", Some(&key), &order).await;
        assert_eq!((replay.status, replay.header("idempotent-replayed")), (201, Some("true")));
        assert_eq!(replay.body, paid.body);
        let reuse = self.send(&pay, "", Some(&key), &self.body(&pay, "amount", 2999)).await;
        assert_eq!((reuse.status, &reuse.json()["code"]), (422, &json!("idempotency-key-reuse")));
        // The application's own 422 beside idem's.
        let wrong = self.send(&pay, "", Some(&new_key(&pay)), &self.body(&pay, "amount", 0)).await;
        assert_eq!((wrong.status, wrong.header("content-type")), (422, Some("application/json")));

        let payment = paid.json()["id"].as_str().expect("an id").to_owned();
        let describe = operation("PATCH", "/payments/{id}");
        let description = self.body(&describe, "description", "for the cat");
        let described = self.send(&describe, &payment, Some(&new_key(&describe)), &description).await;
        assert_eq!((described.status, &described.json()["description"]), (200, &json!("for the cat")));

        let refund = operation("POST", "/refunds");
        assert_eq!(refund.key().expect("a key")["required"], false);
        assert_eq!(self.send(&refund, "", None, &self.body(&refund, "payment", payment.as_str())).await.status, 201);

        let list = operation("GET", "/payments");
        assert!(list.key().is_none());
        assert_eq!(self.send(&list, "", None, &Value::Null).await.json()["count"], 1);
        assert_eq!(self.send(&operation("GET", "/payments/{id}"), &payment, None, &Value::Null).await.status, 200);
    }
}

#[tokio::test]
async fn b96_the_example_does_what_its_document_says_on_sqlite() {
    let database = sqlite();
    let server = process::payments(&database.url()).await;
    Example::at(server.address()).await.drive().await;
}

#[tokio::test]
async fn b96_the_example_does_what_its_document_says_on_postgres() {
    let database = postgres().await;
    let server = process::payments(&database.url()).await;
    Example::at(server.address()).await.drive().await;
}
