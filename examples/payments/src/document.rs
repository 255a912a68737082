//! What the OpenAPI document says besides the operations, which are in `handlers.rs`: the title, and how accounts are told.

use utoipa::{
    Modify, OpenApi as _,
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
    info(title = "Payments", description = "A payments API whose retries are safe."),
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
