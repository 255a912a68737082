//! The path of one axum request. Only this folder, `openapi` and the public types that hold a response use axum.
//!
//! 1. `call` extracts the handler's arguments from a body that `request_body` buffers, so authentication responds
//!    first.
//! 2. `run` starts the attempts in a task of `tasks`, which a disconnect does not stop.
//! 3. `identity` makes the claim request: key, scope and fingerprint.
//! 4. `database` or `external` claims the key through the engine. If it is refused, `run` responds: replay, 409, 422,
//!    503.
//! 5. The body runs. `outcome` turns its result into a response and the database error behind it.
//! 6. `effects` decides the disposition: store, release, or run again.
//! 7. `response` buffers the response's body and makes the record of it.
//! 8. `database` or `external` settles: it writes the record and commits.
//! 9. `run` reports the response and returns it. No response leaves before this point.

pub(crate) mod call;
pub(crate) mod database;
pub(crate) mod effects;
pub(crate) mod external;
pub(crate) mod handler_param;
pub mod headers;
mod identity;
pub(crate) mod outcome;
mod problem;
mod request;
mod request_body;
pub(crate) mod response;
pub(crate) mod run;
pub(crate) mod tasks;
