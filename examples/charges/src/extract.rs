//! What is settled before a handler begins: who asks, and that what they ask for can be charged and stored.
//! The rejections of extractors store nothing, so the key stays free for the corrected request.

use std::num::NonZeroU32;

use axum::{
    Json,
    extract::FromRequestParts,
    http::{StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use idem_runtime::{Scope, ScopeId};
use serde::{Deserialize, Serialize};
use serde_json::json;

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
#[derive(Debug)]
pub(crate) struct Unauthorized;

impl IntoResponse for Unauthorized {
    fn into_response(self) -> Response {
        let message = "say who you are: Authorization: Bearer ACCOUNT";
        let body = Json(json!({ "error": { "code": "unauthorized", "message": message } }));
        (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], body).into_response()
    }
}

/// What a client asks for. `Json<NewCharge>` turns away what the network or the database would refuse *before* the card
/// is charged: a row that cannot be written afterwards is a charge that has to be given back.
#[derive(Serialize, Deserialize)]
pub(crate) struct NewCharge {
    /// In the currency's smallest unit.
    pub(crate) amount: NonZeroU32,
    pub(crate) currency: Word,
    pub(crate) source: Word,
}

/// A short text of printable ASCII.
#[derive(Serialize, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Word(String);

impl Word {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Word {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let short = (1..=100).contains(&text.len());
        let printable = text.bytes().all(|byte| byte.is_ascii_graphic());
        if short && printable { Ok(Self(text)) } else { Err("must be 1 to 100 printable characters without spaces") }
    }
}
