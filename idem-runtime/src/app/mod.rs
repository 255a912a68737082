//! `Idempotency`, which an application's state holds, and the builder of its defaults.
//! Everything here is for whoever sets a service up; requests go through `call`.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use axum::response::{IntoResponse, Response};
use sqlx::Pool;
use tokio_util::task::TaskTracker;

pub(crate) mod background;
pub(crate) mod builder;
mod ignored_keys;
pub(crate) mod problem;
mod prune;
pub(crate) mod telemetry;

pub use builder::Builder;
use ignored_keys::IgnoredKeys;
use problem::{Code, Problem, Render};

use crate::{
    backend::{Backend, error::Error},
    engine::{Engine, unbroken},
    model::{handler_options::Policy, options::Mismatch},
};

/// What handlers need to claim keys on one database pool. An application's state holds one; cloning it is cheap.
///
/// ```
/// # #[cfg(feature = "sqlite")]
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use axum::extract::FromRef;
/// use idem_runtime::Idempotency;
/// use sqlx::{Sqlite, SqlitePool};
///
/// #[derive(Clone)]
/// struct App {
///     idempotency: Idempotency<Sqlite>,
/// }
///
/// impl FromRef<App> for Idempotency<Sqlite> {
///     fn from_ref(app: &App) -> Self {
///         app.idempotency.clone()
///     }
/// }
///
/// let pool = SqlitePool::connect("sqlite::memory:").await?;
/// let app = App { idempotency: Idempotency::builder(pool).build() };
/// app.idempotency.migrate().await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Idempotency<Db: Backend> {
    pub(crate) app: Arc<App<Db>>,
}

/// What an application's requests share.
pub(crate) struct App<Db: Backend> {
    pub(crate) engine: Engine<Db>,
    pub(crate) policy: Policy,
    pub(crate) tasks: TaskTracker,
    pub(crate) ignored_keys: IgnoredKeys,
    render: Option<Box<Render>>,
}

impl<Db: Backend> App<Db> {
    /// One of idem's own answers, in the application's format if it has one.
    pub(crate) fn render(&self, code: Code, mismatch: Mismatch) -> Response {
        self.respond(Problem::of(code, mismatch))
    }

    pub(crate) fn respond(&self, problem: Problem) -> Response {
        let Some(render) = &self.render else { return problem.into_response() };
        // A renderer that panics must not take a settled answer with it.
        catch_unwind(AssertUnwindSafe(|| render(problem))).unwrap_or_else(|_| problem.into_response())
    }
}

#[cfg(any(feature = "utoipa", feature = "aide"))]
impl<Db: Backend> App<Db> {
    /// Whether idem's answers are the problem documents that it makes itself.
    pub(crate) fn renders_problems(&self) -> bool {
        self.render.is_none()
    }
}

impl<Db: Backend> Idempotency<Db> {
    /// Starts with every default; see [`Builder`].
    pub fn builder(pool: Pool<Db>) -> Builder<Db> {
        Builder::new(pool)
    }

    /// Creates the table `idem_records`, or brings it to this version. Safe to call at every start, by several processes
    /// at once, beside the application's own sqlx migrations: it keeps its version in `idem_schema`, not in sqlx's table.
    ///
    /// Teams that run SQL by hand find the same statements in the crate's folder `migrations/`.
    ///
    /// # Errors
    /// [`Error::Database`] if the database cannot be reached or does not permit it, [`Error::SchemaVersion`] if the table is
    /// newer than this build, [`Error::SchemaMissing`] if a table of that name is not idem's.
    pub async fn migrate(&self) -> Result<(), Error> {
        let pool = self.pool().clone();
        unbroken(async move { Db::migrate(&pool).await }).await?;
        self.check().await
    }

    /// Checks that the table is the one this version needs. For services that do not call [`migrate`](Self::migrate):
    /// call it at start, before serving.
    ///
    /// # Errors
    /// [`Error::SchemaMissing`], [`Error::SchemaVersion`], or [`Error::Database`] if the database cannot be reached.
    pub async fn check(&self) -> Result<(), Error> {
        Db::check(&self.app.engine.store.pool).await
    }

    /// Waits until every attempt has ended: those whose clients have gone, too, which a server's own graceful shutdown
    /// does not wait for. Call it after the server has stopped.
    ///
    /// `drain` does not wait for a database step that exceeded [`timeout`](Builder::timeout): its client has already
    /// received a 503. Such a step can still take effect. If it is COMMIT, or the statement that completes an external
    /// attempt, the work may commit after `drain` has returned; the client received `idempotency-outcome-unknown`, and
    /// its retry finds the record or runs. Any other such step commits nothing.
    ///
    /// # Errors
    /// [`Error::StillRunning`] if the limit ran out first. Ending the process then rolls those attempts back; those with
    /// external effects it leaves to the recovery.
    pub async fn drain(&self, limit: Duration) -> Result<(), Error> {
        self.app.tasks.close();
        let drained = tokio::time::timeout(limit, self.app.tasks.wait()).await;
        drained.map_err(|_| Error::StillRunning { running: self.app.tasks.len() })
    }

    pub(crate) fn pool(&self) -> &Pool<Db> {
        &self.app.engine.store.pool
    }
}

impl<Db: Backend> Clone for Idempotency<Db> {
    fn clone(&self) -> Self {
        Self { app: Arc::clone(&self.app) }
    }
}

impl<Db: Backend> fmt::Debug for Idempotency<Db> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Idempotency").field("policy", &self.app.policy).finish_non_exhaustive()
    }
}
