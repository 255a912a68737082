//! An error response as the retry rule and the final error see it: status, headers and the start of the body.
//! `Debug` shows neither header values nor the body, because a server can repeat the key or the request in them.

use std::{fmt, time::SystemTime};

use bytes::Bytes;
use reqwest::{StatusCode, header::HeaderMap};
use serde_json::{Map, Value};

use crate::response::retry_after;

/// The code with which idem responds while an earlier attempt is in flight.
const IN_PROGRESS: &str = "in-progress";

/// A 4xx or 5xx response that is not a replay. [`Builder::retry_on`](crate::Builder::retry_on) decides by it, and
/// [`GaveUp::response`](crate::GaveUp::response) returns it.
///
/// `Debug` shows the status, the length of the body and whether it is truncated.
#[derive(Clone)]
pub struct ErrorResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) truncated: bool,
}

impl ErrorResponse {
    /// The maximum length of [`body`](Self::body): 64 KiB.
    pub const MAX_BODY: usize = 64 * 1024;

    /// Returns the status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns the headers.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Returns the start of the body, at most [`MAX_BODY`](Self::MAX_BODY) bytes.
    #[must_use]
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// Returns `true` if the body is longer than [`body`](Self::body): it exceeds [`MAX_BODY`](Self::MAX_BODY), or the
    /// response broke off or timed out.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.truncated
    }

    /// Returns the member `code` of a JSON body, if it is a string. Idem's own problem documents have one, such as
    /// `in-progress`.
    #[must_use]
    pub fn code(&self) -> Option<String> {
        let problem: Map<String, Value> = serde_json::from_slice(&self.body).ok()?;
        Some(problem.get("code")?.as_str()?.to_owned())
    }

    /// Returns whether the client retries this response unless [`Builder::retry_on`](crate::Builder::retry_on) replaces the
    /// rule:
    ///
    /// - any 5xx;
    /// - a 409 with the [`code`](Self::code) `in-progress` or a valid `Retry-After`. Any other 409 is a result of the
    ///   application, such as "already paid";
    /// - a 429 with a valid `Retry-After`. A rate limit refuses a request before it takes effect.
    #[must_use]
    pub fn is_retried_by_default(&self) -> bool {
        // A server that renders the document in a format of its own still sends `Retry-After`.
        let asks = || retry_after(&self.headers, SystemTime::now()).is_some();
        match self.status {
            StatusCode::CONFLICT => asks() || self.code().is_some_and(|code| code == IN_PROGRESS),
            StatusCode::TOO_MANY_REQUESTS => asks(),
            status => status.is_server_error(),
        }
    }
}

impl fmt::Debug for ErrorResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { status, body, truncated, .. } = self;
        let mut debug = f.debug_struct("ErrorResponse");
        debug.field("status", status).field("body_length", &body.len()).field("truncated", truncated);
        debug.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, headers: &[(&'static str, &str)], body: &'static str) -> ErrorResponse {
        let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        let status = StatusCode::from_u16(status).unwrap();
        ErrorResponse { status, headers, body: Bytes::from_static(body.as_bytes()), truncated: false }
    }

    #[test]
    fn b80_the_code_is_a_string_in_a_json_object() {
        let code = |body| response(409, &[], body).code();
        assert_eq!(code(r#"{"code":"in-progress","status":409}"#).as_deref(), Some("in-progress"));
        for other in ["", "in-progress", "{}", r#"{"code":7}"#, r#"["in-progress"]"#, r#"{"code":"in-progr"#] {
            assert_eq!(code(other), None, "{other}");
        }
    }

    #[test]
    fn b80_a_409_or_429_is_retried_where_it_says_so() {
        let after = [("retry-after", "1")];
        for (response, retried) in [
            (response(409, &[], r#"{"code":"in-progress"}"#), true),
            (response(409, &after, "busy"), true),
            (response(409, &[], "already paid"), false),
            (response(409, &[], r#"{"code":"already-paid"}"#), false),
            (response(409, &[("retry-after", "soon")], ""), false),
            (response(429, &after, ""), true),
            (response(429, &[], r#"{"code":"in-progress"}"#), false),
            (response(422, &after, r#"{"code":"in-progress"}"#), false),
            (response(500, &[], ""), true),
            (response(599, &[], ""), true),
        ] {
            assert_eq!(response.is_retried_by_default(), retried, "{response:?} {:?}", response.body());
        }
    }

    #[test]
    fn debug_shows_no_header_value_and_no_body() {
        let text = format!("{:?}", response(503, &[("idempotency-key", "s3cret")], "s3cret"));
        assert_eq!(text, "ErrorResponse { status: 503, body_length: 6, truncated: false, .. }");
    }
}
