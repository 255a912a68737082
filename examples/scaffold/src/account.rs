//! The authenticated caller, read from `Authorization: Bearer ACCOUNT`.
//! The extractor runs before the claim: a rejection stores nothing, and the key stays free.

use axum::{
    extract::FromRequestParts,
    http::{StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use idem_runtime::{Scope, ScopeId};

use crate::error::error_response;

/// The account that sends a request. A real application looks the token up. Here every token is an account.
#[derive(Clone, Debug)]
pub struct Account(String);

impl Account {
    /// The account's name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A key belongs to an account. Two accounts can use the same key.
impl Scope for Account {
    fn scope_id(&self) -> ScopeId {
        ScopeId::new(&self.0)
    }
}

impl<S: Sync> FromRequestParts<S> for Account {
    type Rejection = Unauthorized;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Unauthorized> {
        let header = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let (scheme, account) = header.and_then(|value| value.split_once(' ')).ok_or(Unauthorized)?;
        let account = account.trim();
        if !scheme.eq_ignore_ascii_case("bearer") || account.is_empty() || account.contains(' ') {
            return Err(Unauthorized);
        }
        Ok(Self(account.to_owned()))
    }
}

/// The request has no `Authorization` header, or an unreadable one.
#[derive(Debug)]
pub struct Unauthorized;

impl IntoResponse for Unauthorized {
    fn into_response(self) -> Response {
        let body = error_response(StatusCode::UNAUTHORIZED, "unauthorized", "send Authorization: Bearer ACCOUNT");
        ([(header::WWW_AUTHENTICATE, "Bearer")], body).into_response()
    }
}
