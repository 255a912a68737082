//! The way of one axum request: extract, claim, body, settle, respond. Only this folder, `openapi` and the few types
//! that name a response know axum.

pub(crate) mod call;
pub(crate) mod effects;
pub(crate) mod handler_param;
pub mod headers;
pub(crate) mod outcome;
mod request_body;
pub(crate) mod response;
pub(crate) mod run;
pub(crate) mod settle;
pub(crate) mod tasks;
