//! The names of the headers that idem reads and writes, for whoever lists headers: a CORS layer, a gateway's configuration.
//! A browser's script may send, and may read, only what such a list has.

use http::{HeaderName, header};

use crate::{http::response, model::idempotency_key};

/// What a request may carry: `Idempotency-Key`. For `Access-Control-Allow-Headers`, beside what your own handlers read.
///
/// ```
/// use axum::http::{HeaderName, Method, header};
/// use idem_runtime::headers;
/// use tower_http::cors::{Any, CorsLayer};
///
/// let own = [header::AUTHORIZATION, header::CONTENT_TYPE];
/// let cors = CorsLayer::new()
///     .allow_origin(Any)
///     .allow_methods([Method::GET, Method::POST, Method::PATCH])
///     .allow_headers(own.into_iter().chain(headers::allowed()).collect::<Vec<HeaderName>>())
///     .expose_headers(headers::exposed());
/// # drop(cors);
/// ```
///
/// Put the layer outside the routes, as ever: `Router::new().route(…).layer(cors)`. It answers a preflight request by
/// itself, so that none reaches a handler or the database.
#[must_use]
pub fn allowed() -> [HeaderName; 1] {
    [idempotency_key::HEADER]
}

/// What an answer may carry that tells a client how to go on: `Idempotent-Replayed` and `Retry-After`. For
/// `Access-Control-Expose-Headers`.
#[must_use]
pub fn exposed() -> [HeaderName; 2] {
    [response::REPLAYED, header::RETRY_AFTER]
}
