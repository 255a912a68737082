//! What a handler with external effects is param: an attempt, with a key for each of its steps elsewhere and the transaction
//! that completes it. The same is param to a reconciler, which completes an attempt that is dead.

use std::{borrow::Cow, fmt};

use sqlx::Transaction;

use crate::{
    backend::{Backend, Opening},
    engine::{Lease, Store},
    model::{
        options::Isolation,
        record_id::RecordId,
        step_key::{StepKey, Steps},
    },
};

/// One attempt of a handler with `effects = external`: its `&mut` parameter.
///
/// Its key was committed as in progress before the body began. What the body does elsewhere cannot be rolled back, so each
/// call to another system carries a key of its own, derived by [`key`](Self::key): should the process die, whoever finishes
/// the attempt asks with the same one. What belongs into our database goes through
/// [`transaction`](Self::transaction), and commits together with the answer.
///
/// ```
/// # use axum::{http::StatusCode, Json};
/// # use idem_runtime::{Attempt, Scope, ScopeId, idempotent};
/// # use sqlx::Postgres;
/// # #[derive(Clone)] struct Account(i64);
/// # impl Scope for Account { fn scope_id(&self) -> ScopeId { ScopeId::new(self.0.to_be_bytes()) } }
/// # impl<S: Sync> axum::extract::FromRequestParts<S> for Account {
/// #     type Rejection = StatusCode;
/// #     async fn from_request_parts(_: &mut axum::http::request::Parts, _: &S) -> Result<Self, StatusCode> { Ok(Self(1)) }
/// # }
/// # #[derive(serde::Deserialize)] struct Charge { amount: i64 }
/// # struct AppError; impl From<sqlx::Error> for AppError { fn from(_: sqlx::Error) -> Self { Self } }
/// # impl axum::response::IntoResponse for AppError { fn into_response(self) -> axum::response::Response { StatusCode::INTERNAL_SERVER_ERROR.into_response() } }
/// # mod network { pub async fn charge(_: i64, _key: String) -> Result<String, super::AppError> { Ok("ch_1".into()) } }
/// #[idempotent(scope = account, effects = external)]
/// async fn charge(
///     account: Account,
///     attempt: &mut Attempt<Postgres>,
///     Json(charge): Json<Charge>,
/// ) -> Result<StatusCode, AppError> {
///     let id = network::charge(charge.amount, attempt.key("charge").to_string()).await?;
///     let insert = sqlx::query("INSERT INTO charges (id, account, amount) VALUES ($1, $2, $3)");
///     let insert = insert.bind(id).bind(account.0).bind(charge.amount);
///     insert.execute(&mut **attempt.transaction().await?).await?;
///     Ok(StatusCode::CREATED)
/// }
/// # fn main() {}
/// ```
pub struct Attempt<Db: Backend> {
    store: Store<Db>,
    steps: Steps,
    isolation: Option<Isolation>,
    /// Without a key there is nothing to hold.
    lease: Option<Lease<Db>>,
    /// The completing transaction, once it is asked for.
    transaction: Option<Transaction<'static, Db>>,
}

impl<Db: Backend> Attempt<Db> {
    pub(crate) fn new(
        store: Store<Db>,
        id: RecordId,
        operation: Cow<'static, str>,
        isolation: Option<Isolation>,
        lease: Option<Lease<Db>>,
    ) -> Self {
        Self { store, steps: Steps { id, operation }, isolation, lease, transaction: None }
    }

    /// The key that the call of this step is to carry.
    ///
    /// The same for every attempt at this operation, in every process and release; different for every step, operation,
    /// client key and scope. A processor that honours it executes the step once, however often it is called.
    ///
    /// A request without a key (`key = optional`) has steps of its own, which nothing repeats.
    #[must_use]
    pub fn key(&self, step: &str) -> StepKey {
        self.steps.key(step)
    }

    /// The key of one of several calls of a step, told apart by an index; none of them is [`key`](Self::key)'s.
    #[must_use]
    pub fn key_at(&self, step: &str, index: u64) -> StepKey {
        self.steps.key_at(step, index)
    }

    /// The stored name of the effect.
    #[must_use]
    pub fn operation(&self) -> &str {
        &self.steps.operation
    }

    /// The completing transaction, opened when first asked for: what is written through it commits together with the answer,
    /// or not at all. Without it the answer is recorded alone.
    ///
    /// As with database effects, its writes commit with 2xx and 3xx and are rolled back otherwise, unless the response
    /// carries a [`Settle`](crate::Settle), and it cannot be committed by the handler.
    ///
    /// Ask for it after the calls to other systems: it holds a connection, on SQLite it is the one writer, and under a
    /// stricter isolation than READ COMMITTED a lease that is renewed meanwhile makes it fail.
    ///
    /// # Errors
    /// What the pool or BEGIN answered with, or [`sqlx::Error::PoolTimedOut`] after
    /// [`timeout`](crate::Builder::timeout).
    pub async fn transaction(&mut self) -> Result<&mut Transaction<'static, Db>, sqlx::Error> {
        let transaction = if let Some(transaction) = self.transaction.take() {
            transaction
        } else {
            let opening = self.lease.as_ref().map_or(Opening::WithoutKey, |lease| Opening::Complete(lease.holder()));
            self.store.begin(self.isolation, opening).await?
        };
        Ok(self.transaction.insert(transaction))
    }

    /// What is to be ended.
    pub(crate) fn into_parts(self) -> (Option<Lease<Db>>, Option<Transaction<'static, Db>>) {
        (self.lease, self.transaction)
    }
}

impl<Db: Backend> fmt::Debug for Attempt<Db> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt").field("operation", &self.steps.operation).finish_non_exhaustive()
    }
}
