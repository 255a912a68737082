//! What an operation already says, with both libraries: a header of the same name gives way wherever it stands, and nothing
//! else changes. That includes what the libraries write as JSON and do not read again.

use axum::Json;
use idem_openapi::app::{Account, Order, app};
use idem_runtime::idempotent;
use serde_json::{Value, json};
use sqlx::SqliteConnection;

#[utoipa::path(post, path = "/payments", responses((status = 201, description = "paid", body = Order)))]
#[idempotent(scope = account)]
async fn pay(account: Account, tx: &mut SqliteConnection, Json(order): Json<Order>) -> Json<Order> {
    let _ = tx;
    Json(order)
}

/// What the document shares: the key's header in two steps, and parameters that are not the key's header.
fn shared() -> Value {
    json!({
        "Key": { "$ref": "#/components/parameters/Key-1" },
        "Key-1": { "name": "IDEMPOTENCY-key", "in": "header", "required": true, "schema": { "type": "string" } },
        "Trace": { "name": "Trace-Id", "in": "header", "required": false, "schema": { "type": "string" } },
        "Query": { "name": "Idempotency-Key", "in": "query", "required": false, "schema": { "type": "string" } },
        "Circle": { "$ref": "#/components/parameters/Circle" },
    })
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/parameters/{name}") })
}

/// The operation refers to each of the shared parameters, and to one that does not exist.
fn references() -> Vec<Value> {
    ["Key", "Trace", "Query", "Circle", "Nowhere"].map(reference).to_vec()
}

/// Checks that the two references to the key's header are now one header.
fn assert_one_key(document: &impl serde::Serialize) {
    let document = serde_json::to_value(document).expect("JSON");
    let mut parameters = document["paths"]["/payments"]["post"]["parameters"].as_array().expect("parameters").clone();
    let key = parameters.pop().expect("a parameter");
    assert_eq!((&key["name"], &key["in"]), (&json!("Idempotency-Key"), &json!("header")));
    assert_eq!(parameters, ["Trace", "Query", "Circle", "Nowhere"].map(reference));
    let shared_key = &document["components"]["parameters"]["Key-1"]["name"];
    assert_eq!(shared_key, "IDEMPOTENCY-key", "others may refer to it");
}

mod with_utoipa {
    use super::*;
    use utoipa::openapi::{
        Components, Content, OpenApi, RefOr, Response,
        extensions::Extensions,
        header::Header,
        path::{Operation, PathItem},
    };
    use utoipa_axum::{router::OpenApiRouter, routes};

    fn document() -> OpenApi {
        let (_router, mut document) =
            OpenApiRouter::<idem_openapi::app::App>::new().routes(routes!(pay)).split_for_parts();
        let components = document.components.get_or_insert_with(Components::default);
        components.parameters = serde_json::from_value(shared()).expect("parameters");
        document
    }

    fn operation(document: &mut OpenApi) -> &mut Operation {
        document.paths.paths.get_mut("/payments").and_then(|item| item.post.as_mut()).expect("the operation")
    }

    fn response<'o>(operation: &'o mut Operation, status: &str) -> &'o mut Response {
        match operation.responses.responses.get_mut(status) {
            Some(RefOr::T(response)) => response,
            _ => panic!("no response {status} of the operation's own"),
        }
    }

    #[tokio::test]
    async fn a_shared_header_of_the_key_is_no_second_one() {
        let mut document = document();
        let references = references().into_iter().map(|one| serde_json::from_value(one).expect("a reference"));
        operation(&mut document).parameters = Some(references.collect());
        app(|defaults| defaults).await.0.idempotency.document(&mut document);
        assert_one_key(&document);
    }

    #[tokio::test]
    async fn nothing_else_changes() {
        let extensions: Extensions = [("x-owner", json!("payments"))].into_iter().collect();
        let mut document = document();
        let before = {
            let pay = operation(&mut document);
            pay.extensions.get_or_insert_default().extend([("x-limit".to_owned(), json!(null))]);
            // It does not read these again: they look like a status to it.
            pay.responses.extensions = Some(extensions.clone());
            let mut callback = PathItem::default();
            callback.post = Some(pay.clone());
            pay.callbacks.insert("paid".to_owned(), RefOr::T([("/".to_owned(), RefOr::T(callback))].into()));
            let paid = response(pay, "201");
            paid.extensions = Some(extensions.clone());
            paid.headers.insert("idempotent-replayed".to_owned(), Header::default().into());
            // In another order than by name, and with an example that is not read again.
            let mut csv = Content::default();
            csv.example = Some(Value::Null);
            paid.content.shift_insert(0, "text/csv".to_owned(), csv.into());
            pay.clone()
        };
        app(|defaults| defaults).await.0.idempotency.document(&mut document);

        let after = operation(&mut document);
        assert_eq!(after.callbacks.len(), 1);
        assert!(after.callbacks == before.callbacks);
        assert!(after.responses.extensions == before.responses.extensions);
        assert_eq!(after.extensions.as_ref().map(|all| (all.len(), &all["x-limit"])), Some((1, &Value::Null)));
        let (after, mut before) = (response(after, "201").clone(), before);
        let before = response(&mut before, "201");
        assert!(after.extensions == before.extensions && after.content == before.content);
        assert_eq!(after.content.keys().collect::<Vec<_>>(), ["text/csv", "application/json"]);
        assert_eq!(after.headers.keys().collect::<Vec<_>>(), ["Idempotent-Replayed"], "in place of the other");
    }
}

mod with_aide {
    use super::*;
    use aide::{
        axum::{ApiRouter, routing::post},
        openapi::{Components, MediaType, OpenApi, Operation, PathItem, ReferenceOr, Response, StatusCode},
    };

    fn document() -> OpenApi {
        let mut document = OpenApi::default();
        let router = ApiRouter::<idem_openapi::app::App>::new().api_route("/payments", post(pay));
        let _router = router.finish_api(&mut document);
        let components = document.components.get_or_insert_with(Components::default);
        components.parameters = serde_json::from_value(shared()).expect("parameters");
        document
    }

    fn operation(document: &mut OpenApi) -> &mut Operation {
        let paths = document.paths.as_mut().expect("paths");
        match paths.paths.get_mut("/payments") {
            Some(ReferenceOr::Item(item)) => item.post.as_mut().expect("the operation"),
            _ => panic!("no such path"),
        }
    }

    fn response(operation: &mut Operation) -> &mut Response {
        let responses = operation.responses.as_mut().expect("responses");
        match responses.responses.get_mut(&StatusCode::Code(200)) {
            Some(ReferenceOr::Item(response)) => response,
            _ => panic!("no response 200 of the operation's own"),
        }
    }

    #[tokio::test]
    async fn a_shared_header_of_the_key_is_no_second_one() {
        let mut document = document();
        let references = references().into_iter().map(|one| serde_json::from_value(one).expect("a reference"));
        operation(&mut document).parameters = references.collect();
        app(|defaults| defaults).await.0.idempotency.document(&mut document);
        assert_one_key(&document);
    }

    #[tokio::test]
    async fn nothing_else_changes() {
        let mut document = document();
        let before = {
            let pay = operation(&mut document);
            pay.extensions.insert("x-limit".to_owned(), json!(null));
            let responses = pay.responses.get_or_insert_default();
            responses.extensions.insert("x-owner".to_owned(), json!("payments"));
            let callback = PathItem { post: Some(pay.clone()), ..PathItem::default() };
            let callback = [("/".to_owned(), ReferenceOr::Item(callback))].into_iter().collect();
            pay.callbacks.insert("paid".to_owned(), ReferenceOr::Item(callback));
            let paid = response(pay);
            paid.extensions.insert("x-owner".to_owned(), json!("payments"));
            // It does not read a schema again that is `true`, which is that of any JSON.
            let schema = aide::openapi::SchemaObject { json_schema: true.into(), external_docs: None, example: None };
            let any = MediaType { schema: Some(schema), example: Some(Value::Null), ..MediaType::default() };
            paid.content.shift_insert(0, "text/csv".to_owned(), any);
            pay.clone()
        };
        app(|defaults| defaults).await.0.idempotency.document(&mut document);

        let after = operation(&mut document);
        assert_eq!(after.callbacks, before.callbacks);
        assert_eq!(
            after.responses.as_ref().map(|all| &all.extensions),
            before.responses.as_ref().map(|all| &all.extensions)
        );
        assert_eq!(after.extensions.get("x-limit"), Some(&Value::Null));
        assert_eq!(after.extensions.len(), 1, "the mark is gone");
        let (mut after, mut before) = (after.clone(), before);
        let (after, before) = (response(&mut after), response(&mut before));
        assert_eq!((&after.extensions, &after.content), (&before.extensions, &before.content));
        assert_eq!(after.content.keys().collect::<Vec<_>>(), ["text/csv", "application/json"]);
    }
}
