//! The pool, and how long any step against it may take.
//! A step is never dropped midway, and never waited for beyond that.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use sqlx::{Pool, Transaction, pool::PoolConnection};
use tokio::{runtime::Handle, time::timeout};

use crate::{
    backend::{Backend, Opening},
    model::options::Isolation,
};

/// A pool and its timeout.
pub(crate) struct Store<Db: Backend> {
    pub(crate) pool: Pool<Db>,
    /// The longest that any single step against the database may take.
    pub(crate) timeout: Duration,
}

impl<Db: Backend> Clone for Store<Db> {
    fn clone(&self) -> Self {
        Self { pool: self.pool.clone(), timeout: self.timeout }
    }
}

impl<Db: Backend> Store<Db> {
    /// A connection of the pool.
    pub(crate) async fn connection(&self) -> Result<PoolConnection<Db>, sqlx::Error> {
        // Dropping an acquire is safe, unlike dropping a statement: sqlx closes a connection that it had in hand.
        if let Ok(acquired) = timeout(self.timeout, self.pool.acquire()).await {
            return acquired;
        }
        log_overdue(self.timeout);
        Err(sqlx::Error::PoolTimedOut)
    }

    /// Runs one step on a connection of its own.
    pub(crate) async fn step<T, F>(&self, step: impl FnOnce(PoolConnection<Db>) -> F) -> Result<T, sqlx::Error>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, sqlx::Error>> + Send + 'static,
    {
        let connection = self.connection().await?;
        bounded(self.timeout, step(connection)).await.unwrap_or(Err(sqlx::Error::PoolTimedOut))
    }

    /// Runs one step that takes its connection itself.
    pub(crate) async fn on_pool<T, F>(&self, step: impl FnOnce(Pool<Db>) -> F) -> Result<T, sqlx::Error>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, sqlx::Error>> + Send + 'static,
    {
        bounded(self.timeout, step(self.pool.clone())).await.unwrap_or(Err(sqlx::Error::PoolTimedOut))
    }

    /// Opens a transaction.
    pub(crate) async fn begin(
        &self,
        isolation: Option<Isolation>,
        opening: Opening<'_>,
    ) -> Result<Transaction<'static, Db>, sqlx::Error> {
        let statement = Db::begin(isolation, opening);
        self.step(|connection| Transaction::begin(connection, Some(statement))).await
    }
}

/// Runs a step against the database to its end, and waits for it no longer than the limit.
///
/// A step is never dropped midway: sqlx would hand the connection on in whatever state it is (a dropped BEGIN leaves
/// it inside a transaction). It finishes by itself, and a transaction that it returns to nobody is rolled back.
pub(super) async fn bounded<T: Send + 'static>(
    limit: Duration,
    step: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    if let Ok(done) = timeout(limit, unbroken(step)).await {
        return Some(done);
    }
    log_overdue(limit);
    None
}

/// Runs a step against the database to its end, also if whoever waits for it is dropped: a handler or a reconciler that
/// gives up, a client of an administrator's page who disconnects.
pub(crate) fn unbroken<F>(step: F) -> impl Future<Output = F::Output> + Send
where
    F: Future<Output: Send> + Send + 'static,
{
    Unbroken(Some(Box::pin(step)))
}

/// A step that goes on in a task of its own if it is dropped midway.
struct Unbroken<F: Future<Output: Send> + Send + 'static>(Option<Pin<Box<F>>>);

impl<F: Future<Output: Send> + Send + 'static> Future for Unbroken<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // Done, or panicked, it is not put back.
        let Some(mut step) = self.0.take() else { return Poll::Pending };
        let polled = step.as_mut().poll(context);
        if polled.is_pending() {
            self.0 = Some(step);
        }
        polled
    }
}

impl<F: Future<Output: Send> + Send + 'static> Drop for Unbroken<F> {
    fn drop(&mut self) {
        if let (Some(step), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(step);
        }
    }
}

pub(super) fn log(error: &sqlx::Error) {
    tracing::error!(error = error as &dyn std::error::Error, "the idempotency store failed");
}

pub(super) fn log_overdue(limit: Duration) {
    tracing::error!(?limit, "the idempotency store did not answer in time");
}
