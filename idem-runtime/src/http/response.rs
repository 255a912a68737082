//! From what a handler returned to what is stored and sent, and from a record back to a response.
//! `Settle` is how one response asks for another ending than its status gives it.

use std::{convert::Infallible, panic::AssertUnwindSafe, time::Duration};

use axum::{
    body::Body,
    response::{IntoResponse, IntoResponseParts, Response, ResponseParts},
};
use bytes::Bytes;
use futures_util::FutureExt;
use http::{HeaderName, HeaderValue, header, response::Parts};
use http_body_util::{BodyExt, LengthLimitError, Limited};

use crate::{
    app::problem::Code,
    model::{
        handler_options::Replay,
        options::SetCookie,
        record::{Record, Unreadable},
    },
};

/// The header that marks a replay.
pub(crate) const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// How long a response's body may take to end. The transaction is open meanwhile, so this is no option.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Asks, on one response, for another ending of its claim than the status would give it.
///
/// Without it, writes commit with 2xx and 3xx and are rolled back with 4xx and 5xx, and the answer is stored either way.
/// What one response asks for wins over `on_server_error`.
///
/// It goes where axum takes response parts:
///
/// ```
/// use axum::{http::StatusCode, response::IntoResponse};
/// use idem_runtime::Settle;
///
/// fn declined() -> impl IntoResponse {
///     // The declined payment stays in the table, and so does the answer.
///     (StatusCode::PAYMENT_REQUIRED, Settle::KeepWrites, "card declined")
/// }
/// # assert_eq!(declined().into_response().status(), 402);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settle {
    /// The handler's writes commit whatever the status.
    KeepWrites,
    /// The handler's writes are rolled back whatever the status.
    DropWrites,
    /// Nothing was executed (a validation inside the body): all is rolled back, nothing stored, the key free.
    NothingExecuted,
    /// The transaction lost against another one (serialization failure, deadlock): roll back and run the handler again,
    /// four times in all, then `503`. For handlers whose error type does not lead to the `sqlx::Error` by
    /// [`source`](std::error::Error::source); where it does, idem sees it by itself. A handler with external effects is never
    /// run again: for it this is a failure, which ends as a 5xx does.
    RunAgain,
}

impl IntoResponseParts for Settle {
    type Error = Infallible;

    fn into_response_parts(self, mut parts: ResponseParts) -> Result<ResponseParts, Infallible> {
        parts.extensions_mut().insert(self);
        Ok(parts)
    }
}

impl IntoResponse for Settle {
    fn into_response(self) -> Response {
        (self, ()).into_response()
    }
}

/// A response whose body is whole.
pub(crate) struct BufferedResponse {
    parts: Parts,
    body: Bytes,
}

impl BufferedResponse {
    /// Reads a response's body to its end, which must come within the limit and in bounded time.
    pub(crate) async fn of(response: Response, limit: usize) -> Result<Self, Code> {
        let (mut parts, body) = response.into_parts();
        if is_event_stream(&parts) {
            tracing::error!("an event stream has no end and cannot be stored");
            return Err(Code::ResponseUnfinished);
        }
        let collecting = AssertUnwindSafe(Limited::new(body, limit).collect()).catch_unwind();
        let body = match tokio::time::timeout(BODY_TIMEOUT, collecting).await {
            Ok(Ok(Ok(collected))) => collected.to_bytes(),
            Ok(Ok(Err(error))) if error.is::<LengthLimitError>() => {
                tracing::error!(limit, "a response is too long to be stored: raise `max_response`, or answer less");
                return Err(Code::ResponseTooLarge);
            }
            failed => {
                let what = if failed.is_err() { "did not end in time" } else { "failed" };
                tracing::error!(what, "a response's body cannot be stored");
                return Err(Code::ResponseUnfinished);
            }
        };
        // What is stored is one account's answer. Said on the first answer too, so that the replay equals it.
        parts.headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
        // The body is whole now, whatever framing the handler gave it: a replay has none of that either.
        parts.headers.remove(header::CONTENT_LENGTH);
        parts.headers.remove(header::TRANSFER_ENCODING);
        Ok(Self { parts, body })
    }

    pub(crate) fn record(&self, fingerprint: Vec<u8>, set_cookie: SetCookie) -> Result<Record, Code> {
        Record::new(fingerprint, self.parts.status, &self.parts.headers, self.body.clone(), set_cookie)
            .ok_or(Code::ResponseTooLarge)
    }

    pub(crate) fn into_response(self) -> Response {
        Response::from_parts(self.parts, Body::from(self.body))
    }
}

fn is_event_stream(parts: &Parts) -> bool {
    let content_type = parts.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    content_type.is_some_and(|value| value.trim_start().to_ascii_lowercase().starts_with("text/event-stream"))
}

/// The stored response, and the mark that says it is one.
pub(crate) fn replay(record: Record, set_cookie: SetCookie, replay: Replay) -> Result<Response, Unreadable> {
    let (status, headers, body) = record.read()?;
    let mut response = match replay {
        Replay::Full => {
            let mut response = Response::new(Body::from(body));
            *response.headers_mut() = headers;
            response
        }
        Replay::Status => Response::default(),
    };
    *response.status_mut() = status;
    if set_cookie == SetCookie::Drop {
        response.headers_mut().remove(header::SET_COOKIE);
    }
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    Ok(response)
}
