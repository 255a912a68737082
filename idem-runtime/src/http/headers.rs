//! The names of the headers that idem reads and writes, for a CORS layer or a gateway's configuration.
//! A script in a browser may only send and read the headers on such a list.

use http::{HeaderName, header};

use crate::{http::response, model::idempotency_key};

/// The request header `Idempotency-Key`, for `Access-Control-Allow-Headers`. Add those that your own handlers read.
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
/// Add the layer outside the routes, as usual: `Router::new().route(…).layer(cors)`. It responds to preflight requests
/// itself, so they never reach a handler or the database.
#[must_use]
pub fn allowed() -> [HeaderName; 1] {
    [idempotency_key::HEADER]
}

/// The response headers that a client needs, `Idempotent-Replayed` and `Retry-After`, for
/// `Access-Control-Expose-Headers`.
#[must_use]
pub fn exposed() -> [HeaderName; 2] {
    [response::REPLAYED, header::RETRY_AFTER]
}
