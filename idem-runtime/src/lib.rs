//! Exactly-once axum handlers: the `Idempotency-Key` and the work commit in one sqlx transaction.

#[cfg(not(any(feature = "postgres", feature = "sqlite")))]
compile_error!("idem-runtime needs a database: enable its feature `postgres` or `sqlite`, the one your pool has");

mod backend;
mod call;
mod canonical;
mod connection;
mod digest;
mod engine;
mod error;
mod fingerprint;
mod idempotency;
mod key;
mod observe;
mod policy;
mod problem;
mod prune;
mod record;
mod recording;
mod response;
mod running;
mod scope;

#[doc(hidden)]
pub mod __private;

pub use idem_macros::idempotent;

pub use backend::Backend;
pub use error::Error;
pub use idempotency::{Builder, Idempotency};
pub use policy::{
    Fingerprint, InProgress, Isolation, KeyFormat, KeyPresence, Methods, Mismatch, OnServerError, Retention,
    RetentionError, SetCookie,
};
pub use problem::{Code, Problem};
pub use prune::Pruner;
pub use response::Settle;
pub use scope::{Scope, ScopeId};
