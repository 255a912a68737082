//! B74, B95, B96 with `utoipa`: the document says of exactly the protected operations what the server then does.
//! `utoipa::path` above and below, `routes!` and `#[openapi(paths(…))]`, by module path and by re-export.

use axum::{Router, extract::DefaultBodyLimit, routing::post};
use idem_openapi::{
    app::{App, app},
    declared::{Declared, fits},
    driver::Server,
};
use idem_runtime::{
    Retention,
    openapi::Protection,
    options::{FingerprintRule, KeyPresence, Mismatch},
};
use serde_json::json;
use std::time::Duration;
use utoipa::OpenApi;
use utoipa_axum::{router::OpenApiRouter, routes};

#[path = "utoipa/payments.rs"]
mod payments;

mod reexport {
    pub(crate) use super::payments::{__path_refund, refund};
}

/// Half of the operations by their module, half by another.
fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(payments::pay, payments::list))
        .routes(routes!(reexport::refund))
        .routes(routes!(payments::charge))
        .routes(routes!(payments::r#type))
        .route("/undocumented", post(payments::undocumented))
}

const LIMIT: usize = 1024;

fn limited(router: Router<App>, app: App) -> Router {
    router.layer(DefaultBodyLimit::max(LIMIT)).with_state(app)
}

#[tokio::test]
async fn b74_b96_the_server_does_what_its_document_says() {
    let (app, pool) = app(|defaults| defaults).await;
    let (router, mut document) = routes().split_for_parts();
    app.idempotency.document(&mut document);
    let document = Declared::of(&document);
    let server = Server { gate: app.gate.clone(), router: limited(router, app), pool, too_many: LIMIT + 1 };
    server.drive(&document).await;
}

#[tokio::test]
async fn b74_b96_so_it_does_with_defaults_of_the_applications_own() {
    let month = Retention::new(Duration::from_secs(30 * 86_400)).expect("a retention");
    let set = |builder: idem_runtime::Builder<_>| {
        let builder = builder.key(KeyPresence::Optional).mismatch(Mismatch::BadRequest).retention(month);
        builder.fingerprint(FingerprintRule::Json)
    };
    let (app, pool) = app(set).await;
    let (router, mut document) = routes().split_for_parts();
    app.idempotency.document(&mut document);
    let document = Declared::of(&document);
    let pay = document.operation("POST", "/payments");
    let key = pay.key().expect("a key");
    assert_eq!(key["required"], false);
    let text = key["description"].as_str().expect("a description");
    assert!(text.contains("30 days") && text.contains("gets 400") && text.contains("white space"), "{text}");
    assert!(pay.codes("400").contains(&"idempotency-key-reuse"));
    let server = Server { gate: app.gate.clone(), router: limited(router, app), pool, too_many: LIMIT + 1 };
    server.drive(&document).await;
}

#[tokio::test]
async fn b74_the_list_is_the_document() {
    let (app, _pool) = app(|defaults| defaults).await;
    let (_router, mut document) = routes().split_for_parts();
    let routes = app.idempotency.document(&mut document);

    let mut lines: Vec<_> = routes.iter().map(ToString::to_string).collect();
    lines.sort();
    let all = [
        "GET /payments: unprotected",
        "PATCH /payments/{id}: key required",
        "POST /charges: key required",
        "POST /payments/{id}/refunds: key optional",
        "POST /payments: key required",
        "PUT /payments/{id}: unprotected",
    ];
    assert_eq!(lines, all);

    let document = Declared::of(&document);
    assert_eq!(document.operations().len(), routes.len());
    for route in routes {
        let operation = document.operation(route.method.as_str(), &route.path);
        let required = operation.key().map(|key| key["required"] == true);
        let listed = match route.protection {
            Protection::KeyRequired => Some(true),
            Protection::KeyOptional => Some(false),
            _ => None,
        };
        assert_eq!(required, listed, "{}", operation.name());
        assert!(!operation.value.to_string().contains("x-idem"), "{}: a mark is left", operation.name());
    }
}

#[tokio::test]
async fn b96_what_is_said_of_a_protected_operation() {
    let (app, _pool) = app(|defaults| defaults).await;
    let (_router, mut document) = routes().split_for_parts();
    app.idempotency.document(&mut document);
    let document = Declared::of(&document);

    let pay = document.operation("POST", "/payments");
    let key = pay.key().expect("a key");
    assert_eq!((&key["required"], &key["schema"]["maxLength"]), (&json!(true), &json!(255)));
    let text = key["description"].as_str().expect("a description");
    for said in ["24 hours", "gets 422", "byte for byte", "gets 409"] {
        assert!(text.contains(said), "{said}: {text}");
    }
    assert_eq!(pay.statuses().into_iter().collect::<Vec<_>>(), ["201", "400", "409", "413", "422", "503"]);
    assert_eq!(pay.codes("400"), ["idempotency-key-missing", "idempotency-key-malformed"]);
    assert_eq!(pay.codes("409"), ["in-progress"]);
    assert_eq!(pay.codes("422"), ["idempotency-key-reuse"]);
    assert_eq!(
        pay.codes("503"),
        ["idempotency-store-unavailable", "idempotency-outcome-unknown", "idempotency-contention"]
    );
    let with = |header: &str| -> Vec<_> {
        let has = |status: &&str| pay.response(status)["headers"].get(header).is_some();
        pay.statuses().into_iter().filter(has).collect()
    };
    assert_eq!(with("Retry-After"), ["409", "503"]);
    // The handler's own responses: it has declared a 422 too.
    assert_eq!(with("Idempotent-Replayed"), ["201", "422"]);
    assert!(pay.response("422")["description"].as_str().expect("a text").starts_with("not a payment\n\n"));

    let refund = document.operation("POST", "/payments/{id}/refunds");
    let key = refund.key().expect("a key");
    assert_eq!((&key["required"], &key["schema"]["format"]), (&json!(false), &json!("uuid")));
    let text = key["description"].as_str().expect("a description");
    for said in ["30 days", "at this endpoint", "20 milliseconds", "gets 400", "white space", "Without a key"] {
        assert!(text.contains(said), "{said}: {text}");
    }
    // The header that `utoipa::path` declares in lower case is replaced.
    assert_eq!(refund.value["parameters"].as_array().expect("parameters").len(), 2);
    assert_eq!(refund.codes("400"), ["idempotency-key-malformed", "idempotency-key-reuse"]);
    assert!(!refund.statuses().contains("422"));
}

#[tokio::test]
async fn b96_every_key_that_the_document_lets_pass_is_taken() {
    let (app, pool) = app(|defaults| defaults).await;
    let (router, mut document) = routes().split_for_parts();
    app.idempotency.document(&mut document);
    let document = Declared::of(&document);
    let server = Server { gate: app.gate.clone(), router: limited(router, app), pool, too_many: LIMIT + 1 };
    let mut taken = [0; 2];
    for (method, path) in
        [("POST", "/payments"), ("POST", "/payments/{id}/refunds"), ("POST", "/charges"), ("PATCH", "/payments/{id}")]
    {
        let operation = document.operation(method, path);
        let mut keys: Vec<_> = (b' '..=b'~')
            .flat_map(|byte| {
                let byte = char::from(byte);
                [format!("a{byte}b"), format!("\"a{byte}b\""), format!("\"{byte}\""), format!("\"\\{byte}\"")]
            })
            .collect();
        keys.extend(["0".repeat(255), "0".repeat(256), format!("\"{}\"", "0".repeat(253))]);
        keys.extend(["f47ac10b-58cc-4372-a567-0e02b2c3d479", "01ARZ3NDEKTSV4RRFFQ69G5FAV"].map(str::to_owned));
        for key in keys {
            let passes = fits(operation.key().expect("a key"), &key);
            let answer = server.send(&operation, Some(&key), &json!({ "amount": 1 })).await;
            // Stricter than the server in one thing: the two spellings of UUIDs and ULIDs, which are not in `keys`.
            assert_eq!(answer.status != 400, passes, "{}: {key:?} is answered {}", operation.name(), answer.status);
            taken[usize::from(passes)] += 1;
        }
    }
    assert!(taken[0] > 100 && taken[1] > 100, "{taken:?}");
}

#[derive(OpenApi)]
#[openapi(paths(payments::pay, payments::list, reexport::refund))]
struct Derived;

#[tokio::test]
async fn b95_a_derived_document_says_the_same() {
    let (app, _pool) = app(|defaults| defaults).await;
    let (_router, mut collected) = routes().split_for_parts();
    let mut derived = Derived::openapi();
    app.idempotency.document(&mut collected);
    app.idempotency.document(&mut derived);
    let (collected, derived) = (Declared::of(&collected), Declared::of(&derived));
    for (method, path) in [("POST", "/payments"), ("GET", "/payments"), ("POST", "/payments/{id}/refunds")] {
        let (mut one, other) = (derived.operation(method, path).value.clone(), collected.operation(method, path).value);
        // A derived document tags by module.
        one.as_object_mut().expect("an operation").remove("tags");
        assert_eq!(&one, other, "{method} {path}");
    }
}

#[tokio::test]
async fn an_application_with_a_format_of_its_own_declares_no_problem_documents() {
    let own = |builder: idem_runtime::Builder<_>| builder.render(|problem| problem.into_own());
    let (app, _pool) = app(own).await;
    let (_router, mut document) = routes().split_for_parts();
    app.idempotency.document(&mut document);
    let document = Declared::of(&document);
    let pay = document.operation("POST", "/payments");
    assert!(pay.response("409").get("content").is_none());
    assert!(pay.response("409")["headers"].get("Retry-After").is_some());
}

trait Own {
    fn into_own(self) -> axum::response::Response;
}

impl Own for idem_runtime::Problem {
    fn into_own(self) -> axum::response::Response {
        axum::response::IntoResponse::into_response((self.status(), self.title()))
    }
}
