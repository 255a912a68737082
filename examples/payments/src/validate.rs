//! Checks of a JSON body, before the handler runs.
//! This is an ordinary axum extractor. Its rejections store nothing, so the key stays free for the corrected request.

use std::collections::BTreeMap;

use axum::{
    Json,
    extract::{FromRequest, Request},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::IntoResponses;

/// A JSON body that passed the checks of `T`.
pub(crate) struct Valid<T>(pub(crate) T);

/// Makes a value out of a JSON object.
pub(crate) trait Check: Sized {
    /// Takes the valid fields. Returns `None` if a field is invalid: `fields` then has the error.
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

/// The response to a body with invalid fields.
#[derive(Serialize, IntoResponses)]
#[response(status = 422, description = "Some fields are invalid")]
pub(crate) struct Invalid {
    errors: BTreeMap<&'static str, Vec<&'static str>>,
}

impl IntoResponse for Invalid {
    fn into_response(self) -> Response {
        (StatusCode::UNPROCESSABLE_ENTITY, Json(self)).into_response()
    }
}

/// The fields of a JSON object, and their errors.
pub(crate) struct Fields {
    object: Map<String, Value>,
    errors: BTreeMap<&'static str, Vec<&'static str>>,
}

impl Fields {
    /// The field `name`, if it is present and `read` accepts it. `rule` is the error otherwise.
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

    /// The field `name` as a string. PostgreSQL cannot store NUL, so a string with NUL is invalid.
    pub(crate) fn text(&mut self, name: &'static str, rule: &'static str) -> Option<String> {
        self.take(name, rule, |value| value.as_str().filter(|text| !text.contains('\0')).map(str::to_owned))
    }
}
