//! Buffers a response to store it, and makes a response of a stored record.
//! With `Settle` one response overrides how its status settles the claim.

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
        record_id::RecordId,
    },
};

/// The header that marks a replay.
pub(crate) const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// How long a response's body may take to end. The transaction is open meanwhile, so this is not configurable.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Overrides, for one response, how its claim settles.
///
/// By default, writes commit with 2xx and 3xx and are rolled back with 4xx and 5xx, and the response is stored in both
/// cases. A `Settle` on the response takes precedence over `on_client_error` and `on_server_error`.
///
/// Use it as one of axum's response parts:
///
/// ```
/// use axum::{http::StatusCode, response::IntoResponse};
/// use idem_runtime::Settle;
///
/// fn declined() -> impl IntoResponse {
///     // The declined payment stays in the table, and the response is stored.
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
    /// Nothing was executed (a validation inside the body): everything is rolled back and the key is released.
    NothingExecuted,
    /// The transaction conflicted with another one (serialization failure, deadlock). Everything is rolled back and the
    /// handler runs again, as often as it begins within [`database_timeout`](crate::Builder::database_timeout) and at least
    /// four times in all; then the client gets a `503`. Use this if your error type does
    /// not reach the `sqlx::Error` through [`source`](std::error::Error::source). If it does, idem detects the conflict
    /// itself.
    ///
    /// A handler with external effects never runs again. There a response with this value is a failure, whatever its
    /// status, and `on_server_error` decides: `store` stores the response, unless the database has aborted the
    /// transaction; `reconcile` leaves the record in progress. After a passing fault of the database that idem detects
    /// itself, the record stays in progress and the client gets a `503`, `idempotency-outcome-unknown`.
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

/// A response whose body is in memory.
pub(crate) struct BufferedResponse {
    parts: Parts,
    body: Bytes,
}

impl BufferedResponse {
    /// Reads a response's body to its end, up to the limit and within `BODY_TIMEOUT`.
    pub(crate) async fn of(response: Response, limit: usize) -> Result<Self, Code> {
        let (mut parts, body) = response.into_parts();
        if parts.status.is_informational() {
            tracing::error!(status = parts.status.as_u16(), "a status below 200 ends no response and cannot be stored");
            return Err(Code::ResponseUnfinished);
        }
        if is_event_stream(&parts) {
            tracing::error!("an event stream has no end and cannot be stored");
            return Err(Code::ResponseUnfinished);
        }
        let collecting = AssertUnwindSafe(Limited::new(body, limit).collect()).catch_unwind();
        let body = match tokio::time::timeout(BODY_TIMEOUT, collecting).await {
            Ok(Ok(Ok(collected))) => collected.to_bytes(),
            Ok(Ok(Err(error))) if error.is::<LengthLimitError>() => {
                tracing::error!(limit, "a response is too large to be stored: raise `max_response`, or return less");
                return Err(Code::ResponseTooLarge);
            }
            failed => {
                let what = if failed.is_err() { "did not end in time" } else { "failed" };
                tracing::error!(what, "a response's body cannot be stored");
                return Err(Code::ResponseUnfinished);
            }
        };
        // A stored response belongs to one account. The first response has the header too, so that the replay equals it.
        parts.headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
        // The body is buffered now, so the handler's framing no longer applies; the replay has none either.
        parts.headers.remove(header::CONTENT_LENGTH);
        parts.headers.remove(header::TRANSFER_ENCODING);
        Ok(Self { parts, body })
    }

    pub(crate) fn record(&self, id: &RecordId, fingerprint: Vec<u8>, set_cookie: SetCookie) -> Result<Record, Code> {
        Record::new(id, fingerprint, self.parts.status, &self.parts.headers, self.body.clone(), set_cookie).ok_or_else(
            || {
                tracing::error!("a response has too many headers to be stored, or too long ones");
                Code::ResponseTooLarge
            },
        )
    }

    pub(crate) fn into_response(self) -> Response {
        Response::from_parts(self.parts, Body::from(self.body))
    }
}

fn is_event_stream(parts: &Parts) -> bool {
    let content_type = parts.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    content_type.is_some_and(|value| value.trim_start().to_ascii_lowercase().starts_with("text/event-stream"))
}

/// The stored response, marked as a replay.
pub(crate) fn replay(
    id: &RecordId,
    record: Record,
    set_cookie: SetCookie,
    replay: Replay,
) -> Result<Response, Unreadable> {
    let (status, headers, body) = record.read(id)?;
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
