//! Idem's own responses as axum sends them: problem documents (RFC 9457).
//! `app::problem` holds their codes and texts.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};

use crate::app::problem::Problem;

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut document = serde_json::json!({
            "type": self.type_uri(),
            "title": self.title(),
            "status": self.status().as_u16(),
            "detail": self.detail(),
            "code": self.code().as_str(),
        });
        let differs: Vec<_> = self.differs().collect();
        if !differs.is_empty() {
            document["differs"] = differs.into();
        }
        let content_type = HeaderValue::from_static("application/problem+json");
        let mut response =
            (self.status(), [(header::CONTENT_TYPE, content_type)], document.to_string()).into_response();
        if let Some(seconds) = self.retry_after() {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}
