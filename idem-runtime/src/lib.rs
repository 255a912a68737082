//! One effect per `Idempotency-Key`: an axum handler's writes and the record of its response commit in one sqlx
//! transaction. Put [`#[idempotent]`](macro@idempotent) on a handler, keep an [`Idempotency`] in the state, and retries
//! are safe.
//!
//! The handler takes the open transaction as its `&mut` parameter, and `scope` names the parameter that owns the keys.
//! A retry with the same key gets the stored response.
//!
//! ```
//! # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/docs/options_prelude.in"));
//! use axum::{Router, extract::FromRef, routing::post};
//! use idem_runtime::Idempotency;
//! use sqlx::Postgres;
//!
//! #[idempotent(scope = account)]
//! async fn pay(account: Account, tx: &mut PgConnection, Json(payment): Json<Payment>) -> Result<StatusCode, AppError> {
//!     let insert = sqlx::query("INSERT INTO payments (account, amount) VALUES ($1, $2)");
//!     insert.bind(account.0).bind(payment.amount).execute(tx).await?;
//!     Ok(StatusCode::CREATED)
//! }
//!
//! #[derive(Clone, FromRef)]
//! struct App {
//!     idempotency: Idempotency<Postgres>,
//! }
//!
//! async fn start(pool: PgPool) -> Result<Router, idem_runtime::Error> {
//!     let idempotency = Idempotency::builder(pool).build();
//!     idempotency.migrate().await?;
//!     Ok(Router::new().route("/payments", post(pay)).with_state(App { idempotency }))
//! }
//! # fn main() {}
//! ```
//!
//! # Where to find what
//!
//! - [`#[idempotent]`](macro@idempotent): the handler, and a table of all options. [`options`] has an example of each.
//! - [`choosing_effects`]: handlers that call another system take an [`Attempt`]. When to choose that, and what happens
//!   in a crash.
//! - [`recovery`]: reconcilers, which decide attempts that a crash left in progress.
//! - [`messages`]: consumers of queues.
//! - [`openapi`]: documents that describe the protected operations.
//! - [`Builder`]: the application's defaults. [`Idempotency`]: migrate, prune, list, resolve, drain.
//! - [`Code`] and [`Problem`]: idem's own responses. The crate's README has the table of all responses.
//! - The repository's folder `guide`: storage, pruning, webhooks, clients, tests, operation, and moving from your own
//!   table.
//!
//! # How a request runs
//!
//! 1. The handler's extractors run in axum's order, over a body that buffers what they read. If one rejects the
//!    request, its rejection is the response.
//! 2. In a task, which a disconnect does not stop (see [`Builder::in_task`]), idem checks the key and computes the record's identifier and the
//!    request's fingerprint.
//! 3. A transaction opens and claims the key. A record of the same request is replayed; a record of another
//!    request is a mismatch. If the same request is in flight, the response is 409.
//! 4. The handler's body runs with the transaction. Its response is read to the end. A response without `Cache-Control`
//!    gets `no-store`, so that it equals its replays.
//! 5. The record is written in the same transaction, which proves that the handler has not ended it. Then COMMIT.
//! 6. The response is sent after COMMIT is acknowledged.
//!
//! A failure before COMMIT leaves neither the work nor the key.
//!
//! A new key costs two statements more than the bare transaction (on PostgreSQL, two round trips: the savepoint and the
//! locks are sent with BEGIN), one more if the writes are rolled back, and one more under a strict isolation level. A
//! replay costs BEGIN, one statement and ROLLBACK. An in-flight duplicate in the same process costs none.
//!
//! # How a request with external effects runs
//!
//! The extractors, the key, the fingerprint and the task are as above. Then:
//!
//! 1. One statement claims the key and commits it as *in progress*, with a lease, or finds a record.
//! 2. The handler's body runs with its [`Attempt`] and without a transaction. Meanwhile, the lease is renewed.
//! 3. [`Attempt::transaction`] opens the completing transaction, if the body calls it.
//! 4. The response is read to the end. If the attempt still holds the lease, the record is completed, in that
//!    transaction or in a separate statement. The response is sent after that is acknowledged.
//!
//! A failure between 1 and 4 leaves the record in progress. No retry runs the body again. A
//! [`Recovery`](recovery::Recovery) decides the record: its [`Reconciler`](recovery::Reconciler) asks the other system.
//!
//! A new key costs one statement for the claim. The completion costs BEGIN, the handler's own statements, one UPDATE
//! and COMMIT, or only the UPDATE; rolling rows back costs ROLLBACK TO and ROLLBACK, releasing the key a DELETE. A
//! renewal is one statement, after each third of the lease. A replay is one statement, on SQLite two. A sweep that
//! finds nothing is one statement. On PostgreSQL, a sweep runs three statements for each record that it takes, plus
//! those of the verdict.
//!
//! # Observability
//!
//! Each request has a span `idempotent` (level info, with `operation`) around all its attempts. These are the events,
//! all of the target `idem_runtime`, or a module of it:
//!
//! | event | level | when | fields |
//! |---|---|---|---|
//! | `responded` | info | a request or a message got its response | `operation`, `outcome`, `duration` |
//! | `reconciled` | info | a sweep asked about a record | `record`, `operation`, `tries`, `outcome` |
//! | `resolved manually` | info | [`Idempotency::resolve`] was called | `record`, `operation`, `by`, `verdict`, `outcome` |
//! | `stalled attempts need manual resolution` | warn | a sweep skipped records: alert on it | `no_reconciler`, `gave_up` |
//! | `an attempt has lost its lease` | warn | another node decided its record, or is about to | |
//! | `swept`, `pruned expired records` | debug | a background round ended | `swept`, `pruned` |
//! | failures of the database, the handler or a reconciler | error | the message says what to do | `error`, … |
//!
//! The feature `metrics` adds metrics for the recorder of the crate `metrics`:
//!
//! | metric | kind | labels |
//! |---|---|---|
//! | `idem_requests_total` | counter | `operation`, `outcome` |
//! | `idem_request_duration_seconds` | histogram | `operation`, `outcome` |
//! | `idem_reconciled_total` | counter | `operation`, `outcome` |
//! | `idem_stalled_attempts` | gauge, set at each sweep | `state`: `due`, `no_reconciler`, `gave_up` |
//!
//! The `outcome` of a request is `stored`, `replayed`, `released`, `unprotected`, `pending` (a 5xx that was sent and
//! not stored: the recovery decides), or a [`Code`]. A panic of the handler is [`Code::HandlerPanicked`], whether its 500
//! is stored or not. The `outcome` of a reconciliation is `completed`, `released`,
//! `unknown` or `failed`.
//!
//! No event and no metric contains a key, a scope or a body; a record is named by its [`RecordId`].
//!
//! # Tables
//!
//! [`Idempotency::migrate`] creates `idem_records` and `idem_schema`. A record contains digests of scope, key and
//! request, the operation's name, the response's status, headers and body, and when it was created and expires.
//! Responses are stored verbatim: do not put into a response what must not be in your database.
//!
//! A record in progress has no response and no expiry yet. It contains the attempt that holds it and until when, its
//! retention, how often a reconciler was called, and the text of the last error. With `store_request` it also contains
//! the method, URI, content type and body of the request, which are deleted when the record is decided. Other request
//! headers are never stored.
//!
//! # Limits
//!
//! - A key has 1 to 255 printable ASCII characters; with a space, comma, semicolon or quote it must be quoted. An
//!   operation's name has 1 to 128 visible ASCII characters.
//! - A handler runs in a separate task. Task-locals, a subscriber set for the request's future and a trace's context are
//!   not in it, unless [`Builder::in_task`] carries them there.
//! - A handler takes at most 16 extractors besides its `&mut` parameter.
//! - Request bodies are buffered completely, up to the route's own limit.
//! - Response bodies are stored up to `max_response` (default 1 MiB), and must end within 10 seconds. An event stream
//!   becomes a 500.
//! - A database step takes at most [`Builder::database_timeout`] (default 10 seconds); then the response is a 503.
//! - A transaction that conflicts with others runs at least four times, and as often as it begins within `database_timeout`;
//!   then the response is a 503.
//! - A retention is 24 hours to 36,500 days (default 24 hours), shorter only if you allow it. A lease is 1 millisecond
//!   to 24 hours (default 60 seconds). A duplicate waits at most one hour.
//! - A stored request part or header is at most 4 GiB. A reconciler's error is stored up to 500 characters.
//! - [`Idempotency::stalled`] lists at most a thousand attempts.
//! - Writes outside the transaction, through a pool or another connection, are not protected.
//!
//! # Features
//!
//! - `postgres`, `sqlite`: the databases; enable at least one. A service that only calls others needs only
//!   `idem-client`.
//! - `utoipa`, `aide`: OpenAPI documents that describe the protected operations; see [`openapi`].
//! - `metrics`: see [Observability](#observability).

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(not(any(feature = "postgres", feature = "sqlite")))]
compile_error!("idem-runtime needs a database: enable its feature `postgres` or `sqlite`, whichever your pool uses");

mod app;
mod backend;
mod engine;
mod http;
pub mod messages;
mod model;
pub mod openapi;
pub mod recovery;

#[doc(hidden)]
pub mod __private;

#[doc = include_str!("docs/choosing_effects.md")]
#[doc = ""] // ends the last paragraph, whose text the link definitions would be
#[doc = include_str!("docs/links.in")]
pub mod choosing_effects {}

#[doc = include_str!("docs/options.md")]
#[doc = ""] // ends the last paragraph, whose text the link definitions would be
#[doc = include_str!("docs/links.in")]
pub mod options {
    pub use crate::model::options::*;
}

pub use idem_macros::idempotent;

pub use crate::{
    app::{
        Builder, Idempotency,
        background::BackgroundTask,
        drain::DrainError,
        problem::{Code, Problem},
    },
    backend::{Backend, error::Error, migrations},
    engine::attempt::Attempt,
    http::{headers, response::Settle},
    model::{
        lease_duration::{LeaseDuration, LeaseDurationError},
        message_id::MessageId,
        record_id::{RecordId, RecordIdError},
        retention::{Retention, RetentionError},
        scope::{Scope, ScopeId},
        step_key::StepKey,
    },
};
