//! The caller of the handlers that are compiled and never run: a `Scope` and an extractor.
//! Its one field is public and the only one, since some of those handlers take it apart in their parameters.

use axum::{
    extract::FromRequestParts,
    http::{self, request},
};
use idem_runtime::{Scope, ScopeId};

/// Who calls.
#[derive(Clone, Debug)]
pub struct Account {
    /// Its number.
    pub id: i64,
}

impl Scope for Account {
    fn scope_id(&self) -> ScopeId {
        ScopeId::new(self.id.to_be_bytes())
    }
}

impl<S: Sync> FromRequestParts<S> for Account {
    type Rejection = http::StatusCode;
    async fn from_request_parts(parts: &mut request::Parts, _: &S) -> Result<Self, http::StatusCode> {
        parts.extensions.get::<Self>().cloned().ok_or(http::StatusCode::UNAUTHORIZED)
    }
}
