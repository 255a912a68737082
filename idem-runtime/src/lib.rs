//! One effect per `Idempotency-Key`: an axum handler's writes and the record of its answer commit in one sqlx transaction.
//! Put [`#[idempotent]`](macro@idempotent) on a handler, hold an [`Idempotency`] in the state, and retries are safe.
//!
//! The handler takes the open transaction as its one `&mut` parameter and says with `scope` whose keys these are.
//! A retry with the same key gets the stored answer; see the crate's README for the table of answers, and [`options`] for
//! an example of each option. A handler that calls another system takes its attempt instead: [`choosing_effects`] tells
//! when, and how a crash is recovered.
//!
//! The guide, in the repository's folder `guide`, tells why, and what to do in production: what is stored, pruning,
//! consumers, webhooks, clients, tests, what to watch, and how to move from a hand-written table.
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
//! # How a request runs
//!
//! 1. The handler's extractors run in axum's order, over a body that keeps what they read. A rejection is the answer.
//! 2. The key is checked, and digested with the scope; the request is fingerprinted.
//! 3. In a task of its own, which a disconnect does not stop: a transaction opens and claims the key, or tells that there
//!    is a record (replay, or mismatch) or that a twin is running (409).
//! 4. The handler's body runs with the transaction. Its answer's body is read to its end; an answer without
//!    `Cache-Control` gets `no-store`, so that the first one and its replays are the same.
//! 5. The record is written in the same transaction, which proves that it is still the one that was opened; COMMIT.
//! 6. Only when COMMIT is acknowledged does the answer leave.
//!
//! Whatever breaks before 6 leaves neither the work nor the key.
//!
//! A new key costs two statements more than the bare transaction (on PostgreSQL, two round trips: the savepoint and the
//! locks ride on BEGIN), one more if the writes are rolled back, one more under a strict isolation level. A replay costs
//! BEGIN, one statement and ROLLBACK; a twin in the same process costs none.
//!
//! # How a request with external effects runs
//!
//! The extractors, the key and the fingerprint are as above, and so is the task that a disconnect does not stop. Then:
//!
//! 1. One statement takes the key and commits it as *in progress*, with a lease, or tells that there is a record.
//! 2. The handler's body runs with its [`Attempt`] and without a transaction. While it runs, the lease is renewed.
//! 3. [`Attempt::transaction`] opens the completing transaction, if the body asks for it.
//! 4. The answer's body is read to its end. The record is completed, in that transaction or alone, if the lease is still
//!    this attempt's; only when that is acknowledged does the answer leave.
//!
//! Whatever breaks between 1 and 4 leaves the record in progress. No retry runs it again: a [`Recovery`] has it decided
//! by a [`Reconciler`], which asks the other system.
//!
//! A new key costs one statement for the claim, and for the completion BEGIN, the handler's own, one UPDATE and COMMIT,
//! or the UPDATE alone; rolling rows back costs ROLLBACK TO and ROLLBACK, freeing the key a DELETE. A renewal is one
//! statement, after each third of the lease. A replay is one statement, on SQLite two. A sweep that finds nothing is one,
//! and on PostgreSQL three for each record that it takes, before those of its verdict.
//!
//! # Features
//!
//! - `postgres`, `sqlite`: the databases; at least one. A service that only calls others needs the crate `idem-client` alone.
//! - `utoipa`, `aide`: OpenAPI documents say what protected operations need and answer; see [`openapi`].
//! - `metrics`: the counter `idem_requests_total` and the histogram `idem_request_duration_seconds`, by `operation` and
//!   `outcome`, for the recorder of the crate `metrics`.
//!   Also the counter `idem_reconciled_total` by `operation` and `outcome`, and the gauge `idem_stalled_attempts` by `state`
//!   (`due`, `no_reconciler`, `gave_up`; set at each sweep).
//!
//! # What is seen of it
//!
//! A span `idempotent` for each request, around all its attempts, and an event `responded` (level info, target
//! `idem_runtime`) for each answer after the extractors, with `operation`, `outcome` and `duration`. Outcomes are `stored`,
//! `replayed`, `released`, `unprotected`, `pending` (a 5xx that was sent and not stored: the recovery decides), or a [`Code`].
//!
//! The recovery says `reconciled` for each record it decided or asked about (info), `stalled attempts need manual resolution`
//! (warn), and [`Idempotency::resolve`] says `resolved manually` with who did it (info). Failures are events of level
//! error. None holds a key, a scope or a body; a record is named by its [`RecordId`].
//!
//! # Tables
//!
//! [`Idempotency::migrate`] makes `idem_records` and `idem_schema`. A record holds digests of scope and key and of the
//! request, the operation's name, status, headers and body of the answer, and when it was made and expires. The answer is
//! stored as it is: what must not lie in a database must not be in an answer.
//!
//! A record in progress has no answer yet, and no expiry. It holds which attempt has it, until when, how long it is to
//! answer once it is completed, how often a reconciler was asked, and the text of its last error; with `store_request`
//! also method, URI, content type and body of the request, which are deleted when the record is decided. Other headers
//! are never stored.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(not(any(feature = "postgres", feature = "sqlite")))]
compile_error!("idem-runtime needs a database: enable its feature `postgres` or `sqlite`, the one that your pool has");

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
#[doc = include_str!("docs/links.in")]
pub mod choosing_effects {}

#[doc = include_str!("docs/options.md")]
#[doc = include_str!("docs/links.in")]
pub mod options {
    pub use crate::model::options::{
        FingerprintRule, InProgress, Isolation, KeyFormat, KeyPresence, Methods, Mismatch, OnServerError, SetCookie,
    };
}

pub use idem_macros::idempotent;

pub use crate::{
    app::{
        Builder, Idempotency,
        background::BackgroundTask,
        problem::{Code, Problem},
    },
    backend::{Backend, error::Error},
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
