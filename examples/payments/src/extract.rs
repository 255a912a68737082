//! What is settled before a handler begins: who asks, and that what they ask for makes sense.
//! These are ordinary axum extractors. Their rejections store nothing, so the key stays free for the corrected request.

use std::collections::BTreeMap;

use axum::{
    Json,
    extract::{FromRequest, FromRequestParts, Request},
    http::{StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use idem_runtime::{Scope, ScopeId};
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::IntoResponses;

/// The account that a request is made for. Real applications look its token up; here every word is an account.
#[derive(Clone, Debug)]
pub(crate) struct Account(String);

impl Account {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Keys belong to accounts: two accounts never meet over a key.
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

/// No account, or none that can be read.
#[derive(Debug, IntoResponses)]
#[response(status = 401, description = "No account, or none that can be read")]
pub(crate) struct Unauthorized;

impl IntoResponse for Unauthorized {
    fn into_response(self) -> Response {
        let message = "say who you are: Authorization: Bearer ACCOUNT";
        let body = Json(json!({ "error": { "code": "unauthorized", "message": message } }));
        (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], body).into_response()
    }
}

/// A JSON body that passed the checks of `T`.
pub(crate) struct Valid<T>(pub(crate) T);

/// What a JSON object must be to become a `Self`.
pub(crate) trait Check: Sized {
    /// Takes the fields that are right; `None` where one is not, which `fields` then knows about.
    fn check(fields: &mut Fields) -> Option<Self>;
}

impl<S: Send + Sync, T: Check> FromRequest<S> for Valid<T> {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        let Json(object) = Json::from_request(request, state).await.map_err(IntoResponse::into_response)?;
        let mut fields = Fields { object, errors: BTreeMap::new() };
        T::check(&mut fields).map(Self).ok_or_else(|| Invalid { errors: fields.errors }.into_response())
    }
}

/// Some fields are wrong.
#[derive(Serialize, IntoResponses)]
#[response(status = 422, description = "Some fields are not what they must be")]
pub(crate) struct Invalid {
    errors: BTreeMap<&'static str, Vec<&'static str>>,
}

impl IntoResponse for Invalid {
    fn into_response(self) -> Response {
        (StatusCode::UNPROCESSABLE_ENTITY, Json(self)).into_response()
    }
}

/// The fields of a JSON object, and what was wrong with them.
pub(crate) struct Fields {
    object: Map<String, Value>,
    errors: BTreeMap<&'static str, Vec<&'static str>>,
}

impl Fields {
    /// The field called `name`, if it is there and `read` can read it; `rule` says what it should have been.
    pub(crate) fn take<T>(
        &mut self,
        name: &'static str,
        rule: &'static str,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Option<T> {
        let value = self.object.get(name).and_then(read);
        if value.is_none() {
            self.errors.entry(name).or_default().push(rule);
        }
        value
    }

    /// The field called `name`, as text; without NUL, which PostgreSQL cannot store.
    pub(crate) fn text(&mut self, name: &'static str, rule: &'static str) -> Option<String> {
        self.take(name, rule, |value| value.as_str().filter(|text| !text.contains('\0')).map(str::to_owned))
    }
}
