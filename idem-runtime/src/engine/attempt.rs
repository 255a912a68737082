//! The parameter of a handler with external effects: an attempt, with a key for each step in another system and the
//! transaction that completes it. A reconciler gets the same to complete a stalled attempt.

use std::{borrow::Cow, fmt};

use sqlx::Transaction;

use crate::{
    backend::{Backend, Purpose},
    engine::{Lease, Store},
    model::{
        options::Isolation,
        record_id::RecordId,
        step_key::{StepKey, Steps},
    },
};

/// One attempt of a handler with `effects = external`: its `&mut` parameter.
///
/// Its key was committed as in progress before the body began. Effects in another system cannot be rolled back, so each
/// call carries a key derived by [`key`](Self::key). If the process dies, the recovery asks the other system with the same
/// key. Write to the application's database through [`transaction`](Self::transaction): it commits together with the response.
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
    /// `None` without a key.
    lease: Option<Lease<Db>>,
    /// The completing transaction, once the body has asked for it.
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

    /// Returns the key for the call of this step to another system.
    ///
    /// It is the same for every attempt at this operation, in every process and release, and different for every step,
    /// operation, client key and scope. A system that honours it executes the step once, however often it is called.
    ///
    /// Each request without a key (`key = optional`) gets different step keys.
    #[must_use]
    pub fn key(&self, step: &str) -> StepKey {
        self.steps.key(step)
    }

    /// Returns the key for one of several calls of a step, by an index. Every index gives another key than [`key`](Self::key).
    #[must_use]
    pub fn key_at(&self, step: &str, index: u64) -> StepKey {
        self.steps.key_at(step, index)
    }

    /// Returns the stored name of the operation.
    #[must_use]
    pub fn operation(&self) -> &str {
        &self.steps.operation
    }

    /// Returns the completing transaction. The first call opens it. Its writes commit together with the response, or not at
    /// all. Without it the response is recorded alone.
    ///
    /// As with database effects, its writes commit with 2xx and 3xx and are rolled back otherwise, unless the response
    /// carries a [`Settle`](crate::Settle). The handler cannot commit it.
    ///
    /// Ask for it after the calls to other systems: it holds a connection, and on SQLite it is the only writer. Under a
    /// stricter isolation than READ COMMITTED it fails if the lease is renewed while it is open.
    ///
    /// # Errors
    /// The error of the pool or of BEGIN. [`sqlx::Error::PoolTimedOut`] if every connection was in use.
    /// [`sqlx::Error::Io`] of kind `TimedOut` if the database did not respond within
    /// [`database_timeout`](crate::Builder::database_timeout).
    pub async fn transaction(&mut self) -> Result<&mut Transaction<'static, Db>, sqlx::Error> {
        let transaction = if let Some(transaction) = self.transaction.take() {
            transaction
        } else {
            let opening = self.lease.as_ref().map_or(Purpose::Unkeyed, |lease| Purpose::Complete(lease.holder()));
            self.store.begin(self.isolation, opening).await?
        };
        Ok(self.transaction.insert(transaction))
    }

    /// The lease and the transaction, to be settled.
    pub(crate) fn into_parts(self) -> (Option<Lease<Db>>, Option<Transaction<'static, Db>>) {
        (self.lease, self.transaction)
    }
}

impl<Db: Backend> fmt::Debug for Attempt<Db> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt").field("operation", &self.steps.operation).finish_non_exhaustive()
    }
}
