//! The pool, and how long any step against it may take.
//! A step is never dropped midway, and its caller waits no longer than the limit.

use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use sqlx::{Pool, Transaction, pool::PoolConnection};
use tokio::{runtime::Handle, time::timeout};

use crate::{
    backend::{Backend, Purpose, Schema},
    model::options::Isolation,
};

/// A connection or a response that did not come in time.
#[derive(Debug, thiserror::Error)]
#[error("the database {what} within {limit:?}")]
pub(crate) struct OverdueError {
    what: &'static str,
    limit: Duration,
}

impl OverdueError {
    /// The error of a step that took longer than the limit.
    pub(super) fn of_step(limit: Duration) -> Self {
        Self { what: "did not respond", limit }
    }
}

/// Not [`sqlx::Error::PoolTimedOut`], which says that every connection of the pool was in use.
impl From<OverdueError> for sqlx::Error {
    fn from(overdue: OverdueError) -> Self {
        Self::Io(io::Error::new(io::ErrorKind::TimedOut, overdue))
    }
}

/// Whether an error says that a step took too long. Its statement goes on.
pub(super) fn is_overdue(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Io(io) if io.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<OverdueError>))
}

/// A pool and its timeout.
pub(crate) struct Store<Db: Backend> {
    pub(crate) pool: Pool<Db>,
    /// The longest that any single step against the database may take.
    pub(crate) timeout: Duration,
    /// The schema that holds the tables.
    pub(crate) schema: Schema,
}

impl<Db: Backend> Clone for Store<Db> {
    fn clone(&self) -> Self {
        Self { pool: self.pool.clone(), timeout: self.timeout, schema: self.schema.clone() }
    }
}

impl<Db: Backend> Store<Db> {
    /// Takes a connection from the pool, within the timeout.
    pub(crate) async fn connection(&self) -> Result<PoolConnection<Db>, sqlx::Error> {
        // Dropping an acquire is safe, unlike dropping a statement: sqlx closes the connection that it was opening.
        match timeout(self.timeout, self.pool.acquire()).await {
            Ok(Err(sqlx::Error::PoolTimedOut)) => Err(self.no_connection()),
            Ok(acquired) => acquired,
            Err(_) => {
                log_overdue(self.timeout);
                Err(self.no_connection())
            }
        }
    }

    /// Why there was no connection. sqlx reports a pool timeout also while the server refuses connections. A pool that is not
    /// full had no need to wait for anything but the server.
    fn no_connection(&self) -> sqlx::Error {
        let options = self.pool.options();
        if self.pool.size() < options.get_max_connections() {
            let limit = self.timeout.min(options.get_acquire_timeout());
            return OverdueError { what: "could not be connected to", limit }.into();
        }
        sqlx::Error::PoolTimedOut
    }

    /// Runs one step on a connection of the pool, and waits for it no longer than the timeout.
    pub(crate) async fn step<T, E, F>(&self, step: impl FnOnce(PoolConnection<Db>, Schema) -> F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<sqlx::Error> + Send + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let connection = self.connection().await?;
        bounded(self.timeout, step(connection, self.schema.clone()))
            .await
            .unwrap_or_else(|overdue| Err(sqlx::Error::from(overdue).into()))
    }

    /// Runs one step on a connection of the pool, and waits for it however long it takes: no request waits for it.
    pub(crate) async fn unhurried_step<T, F>(
        &self,
        step: impl FnOnce(PoolConnection<Db>, Schema) -> F,
    ) -> Result<T, sqlx::Error>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, sqlx::Error>> + Send + 'static,
    {
        let connection = self.connection().await?;
        to_completion(step(connection, self.schema.clone())).await
    }

    /// Opens a transaction.
    pub(crate) async fn begin(
        &self,
        isolation: Option<Isolation>,
        purpose: Purpose<'_>,
    ) -> Result<Transaction<'static, Db>, sqlx::Error> {
        let statement = Db::begin(isolation, purpose);
        self.step(|connection, _| Transaction::begin(connection, Some(statement))).await
    }
}

/// Runs a step against the database to completion, and waits for it no longer than the limit.
///
/// A step is never dropped midway: sqlx would hand out the connection again in whatever state it is (a dropped BEGIN leaves
/// it inside a transaction). It completes in the background, and a transaction that nobody receives is rolled back.
pub(super) async fn bounded<T: Send + 'static>(
    limit: Duration,
    step: impl Future<Output = T> + Send + 'static,
) -> Result<T, OverdueError> {
    if let Ok(done) = timeout(limit, to_completion(step)).await {
        return Ok(done);
    }
    log_overdue(limit);
    Err(OverdueError::of_step(limit))
}

/// Runs a step against the database to completion, also if the caller's future is dropped: a handler or a reconciler that
/// gives up, a client of an administrator's page who disconnects.
pub(crate) fn to_completion<F>(step: F) -> impl Future<Output = F::Output> + Send
where
    F: Future<Output: Send> + Send + 'static,
{
    ToCompletion(Some(Box::pin(step)))
}

/// A step that continues in its own task if it is dropped midway.
struct ToCompletion<F: Future<Output: Send> + Send + 'static>(Option<Pin<Box<F>>>);

impl<F: Future<Output: Send> + Send + 'static> Future for ToCompletion<F> {
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

impl<F: Future<Output: Send> + Send + 'static> Drop for ToCompletion<F> {
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
    tracing::error!(?limit, "the idempotency store did not respond in time");
}
