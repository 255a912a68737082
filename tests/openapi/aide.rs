//! B74, B96 with `aide`: annotated handlers in `api_route`, with what aide reads of extractors and return types.
//! The same driver as for `utoipa`, since a client cannot tell by which library a document was made.

use aide::{
    axum::{
        ApiRouter,
        routing::{get, patch, post, post_with},
    },
    openapi::{Info, OpenApi},
    transform::TransformOperation,
};
use axum::extract::DefaultBodyLimit;
use idem_openapi::{
    app::{App, app},
    declared::Declared,
    driver::Server,
};
use idem_runtime::options::KeyPresence;
use serde_json::json;

mod payments {
    use axum::{Json, body::Bytes, extract::State, http::request::Parts, response::IntoResponse};
    use idem_openapi::app::{Account, Gate, Order};
    use idem_runtime::{Attempt, idempotent};
    use sqlx::{Sqlite, SqliteConnection};

    #[idempotent(scope = account)]
    pub(crate) async fn pay(
        account: Account,
        State(gate): State<Gate>,
        tx: &mut SqliteConnection,
        Json(order): Json<Order>,
    ) -> Json<Order> {
        let _ = tx;
        if order.held {
            gate.pass().await;
        }
        Json(order)
    }

    #[idempotent(scope = account, mismatch = 400, key_format = uuid, retention = "7d", fingerprint = json)]
    pub(crate) async fn describe(
        account: Account,
        State(gate): State<Gate>,
        tx: &mut SqliteConnection,
        Json(order): Json<Order>,
    ) -> Result<Json<Order>, String> {
        let _ = tx;
        if order.held {
            gate.pass().await;
        }
        Ok(Json(order))
    }

    /// A signature cannot name what it returns, so the route describes it to aide.
    #[idempotent(scope = account, effects = external, key = required)]
    pub(crate) async fn charge(
        account: Account,
        State(gate): State<Gate>,
        attempt: &mut Attempt<Sqlite>,
        Json(order): Json<Order>,
    ) -> impl IntoResponse {
        let _ = attempt;
        if order.held {
            gate.pass().await;
        }
        Json(order)
    }

    #[idempotent(webhook, scope = account, key = order.amount)]
    pub(crate) async fn receive(account: Account, tx: &mut SqliteConnection, Json(order): Json<Order>) {
        let _ = tx;
    }

    #[idempotent(webhook, scope = account, key = order.amount, fingerprint = of_everything)]
    pub(crate) async fn compare(account: Account, tx: &mut SqliteConnection, Json(order): Json<Order>) {
        let _ = tx;
    }

    fn of_everything(_: &Parts, body: &Bytes) -> Vec<u8> {
        body.to_vec()
    }

    pub(crate) async fn list() -> Json<Vec<i64>> {
        Json(Vec::new())
    }
}

fn charged(operation: TransformOperation<'_>) -> TransformOperation<'_> {
    operation.id("charge").response::<200, axum::Json<idem_openapi::app::Order>>()
}

fn routes() -> ApiRouter<App> {
    ApiRouter::new()
        .api_route("/payments", post(payments::pay).get(payments::list))
        .api_route("/payments/{id}", patch(payments::describe).put(payments::describe))
        .api_route("/charges", post_with(payments::charge, charged))
        .api_route("/runs", get(payments::list))
}

fn empty() -> OpenApi {
    OpenApi {
        info: Info { title: "payments".to_owned(), version: "1".to_owned(), ..Info::default() },
        ..OpenApi::default()
    }
}

const LIMIT: usize = 1024;

#[tokio::test]
async fn b74_b96_the_server_does_what_its_document_says() {
    let (app, pool) = app(|defaults| defaults).await;
    let mut document = empty();
    let router = routes().finish_api(&mut document);
    let list = app.idempotency.document(&mut document);
    let document = Declared::of(&document);

    let lines: Vec<_> = list.iter().map(ToString::to_string).collect();
    assert_eq!(list.len(), document.operations().len());
    for line in ["POST /payments: key required", "PUT /payments/{id}: unprotected", "GET /runs: unprotected"] {
        assert!(lines.iter().any(|one| one == line), "{line}: {lines:?}");
    }
    let router = router.layer(DefaultBodyLimit::max(LIMIT)).with_state(app.clone());
    Server { gate: app.gate, router, pool, too_many: LIMIT + 1 }.drive(&document).await;
}

#[tokio::test]
async fn b96_what_is_said_of_a_protected_operation() {
    let (app, _pool) = app(|defaults| defaults.key(KeyPresence::Optional)).await;
    let mut document = empty();
    let _router = routes().finish_api(&mut document);
    app.idempotency.document(&mut document);
    let document = Declared::of(&document);

    let pay = document.operation("POST", "/payments");
    assert_ne!(pay.key().expect("a key")["required"], true, "the application's default");
    assert_eq!(pay.codes("400"), ["idempotency-key-malformed"]);
    // What aide reads of the handler as it is written.
    assert!(pay.value["requestBody"]["content"]["application/json"]["schema"].is_object());
    assert!(pay.response("200")["content"]["application/json"]["schema"].is_object());
    assert!(pay.response("200")["headers"].get("Idempotent-Replayed").is_some());
    assert!(pay.response("409")["headers"].get("Idempotent-Replayed").is_none());
    assert!(pay.response("409")["headers"].get("Retry-After").is_some());

    let describe = document.operation("PATCH", "/payments/{id}");
    let key = describe.key().expect("a key");
    assert_eq!(key["schema"]["format"], json!("uuid"));
    assert!(key["description"].as_str().expect("a text").contains("7 days"));
    assert_eq!(describe.codes("400"), ["idempotency-key-malformed", "idempotency-key-reuse"]);
    assert!(document.operation("PUT", "/payments/{id}").key().is_none());

    // The attribute's word against the application's.
    let charge = document.operation("POST", "/charges");
    assert_eq!(charge.key().expect("a key")["required"], true);
    assert!(charge.response("200")["headers"].get("Idempotent-Replayed").is_some());
    assert!(!document.0.to_string().contains("x-idem"), "a mark is left");
}

#[tokio::test]
async fn a_webhook_handler_needs_no_header_and_refuses_what_it_compares() {
    let (app, _pool) = app(|defaults| defaults.key(KeyPresence::Optional)).await;
    let mut document = empty();
    let routes = ApiRouter::<App>::new().api_route("/events", post(payments::receive).put(payments::compare));
    let _router = routes.finish_api(&mut document);
    let list = app.idempotency.document(&mut document);
    let lines: Vec<_> = list.iter().map(ToString::to_string).collect();
    assert_eq!(lines, ["PUT /events: key in the event", "POST /events: key in the event"]);

    let document = Declared::of(&document);
    let (receive, compare) = (document.operation("POST", "/events"), document.operation("PUT", "/events"));
    for operation in [&receive, &compare] {
        assert!(operation.key().is_none());
        assert_eq!(operation.codes("400"), ["event-id-missing"]);
    }
    assert!(!receive.statuses().contains("422"), "equal ids are equal events");
    assert_eq!(compare.codes("422"), ["idempotency-key-reuse"]);
}
