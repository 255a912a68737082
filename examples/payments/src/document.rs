//! The parts of the OpenAPI document that belong to no operation: the title, and the bearer token.
//! The operations are in `handlers.rs`.

use utoipa::{
    IntoResponses, Modify, OpenApi as _,
    openapi::{
        OpenApi,
        security::{Http, HttpAuthScheme, SecurityScheme},
    },
};

/// A document without operations.
pub(crate) fn start() -> OpenApi {
    Document::openapi()
}

#[derive(utoipa::OpenApi)]
#[openapi(
    info(title = "Payments", description = "A payments API with safe retries."),
    security(("account" = [])),
    modifiers(&Bearer)
)]
struct Document;

struct Bearer;

impl Modify for Bearer {
    fn modify(&self, document: &mut OpenApi) {
        let bearer = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        document.components.get_or_insert_default().add_security_scheme("account", bearer);
    }
}

/// The response of the extractor `Account` to a request without an account.
#[derive(IntoResponses)]
#[response(status = 401, description = "The Authorization header is missing or unreadable")]
pub(crate) struct Unauthorized;
