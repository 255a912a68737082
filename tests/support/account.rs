//! Who calls the handlers that are there to be compiled, not run: a `Scope` and an extractor.
//! Taken by `#[path]` into crates of both editions and under every lint, so it is written for all of them.

use axum::{
    extract::FromRequestParts,
    http::{self, request},
};
use idem_runtime::{Scope, ScopeId};

/// Who calls.
#[derive(Clone, Debug)]
#[non_exhaustive]
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
