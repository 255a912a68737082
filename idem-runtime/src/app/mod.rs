//! `Idempotency`, which an application's state holds, and the builder of its defaults.
//! This folder is what an operator configures and calls; requests go through `http`.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use axum::response::{IntoResponse, Response};
use sqlx::Pool;
use tokio_util::task::TaskTracker;

pub(crate) mod background;
pub(crate) mod builder;
pub(crate) mod drain;
mod ignored_keys;
pub(crate) mod problem;
mod prune;
pub(crate) mod telemetry;

pub use builder::Builder;
use ignored_keys::IgnoredKeys;
use problem::{Code, Problem, Render};

use crate::{
    backend::{Backend, error::Error},
    engine::Engine,
    model::{handler_options::Policy, namespace::Namespace, options::Mismatch},
};

/// Protects handlers with the records of one database pool. Keep one in the application's state; cloning it is cheap.
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

/// The state that all requests of an application share.
pub(crate) struct App<Db: Backend> {
    pub(crate) engine: Engine<Db>,
    pub(crate) policy: Policy,
    pub(crate) namespace: Namespace,
    pub(crate) tasks: TaskTracker,
    pub(crate) ignored_keys: IgnoredKeys,
    render: Option<Box<Render>>,
}

impl<Db: Backend> App<Db> {
    /// One of idem's own responses, in the application's format if it has one.
    pub(crate) fn render(&self, code: Code, mismatch: Mismatch) -> Response {
        self.respond(Problem::of(code, mismatch))
    }

    pub(crate) fn respond(&self, problem: Problem) -> Response {
        let Some(render) = &self.render else { return problem.into_response() };
        // A renderer's panic must not lose a settled response.
        catch_unwind(AssertUnwindSafe(|| render(problem))).unwrap_or_else(|_| problem.into_response())
    }
}

#[cfg(any(feature = "utoipa", feature = "aide"))]
impl<Db: Backend> App<Db> {
    /// Whether idem's own responses are its default problem documents.
    pub(crate) fn renders_problems(&self) -> bool {
        self.render.is_none()
    }
}

impl<Db: Backend> Idempotency<Db> {
    /// Creates a builder with every default; see [`Builder`].
    pub fn builder(pool: Pool<Db>) -> Builder<Db> {
        Builder::new(pool)
    }

    /// Creates the table `idem_records`, or migrates it to this version. Call it at every start: several processes may
    /// do so at once, beside the application's own sqlx migrations. Its version is in `idem_schema`, not in sqlx's
    /// table.
    ///
    /// To migrate manually, run the same statements from the crate's folder `migrations/`.
    ///
    /// # Errors
    /// - [`Error::Database`]: the database cannot be reached, or does not permit it.
    /// - [`Error::SchemaVersion`]: the table is newer than this build.
    /// - [`Error::SchemaMissing`]: a table of that name is not idem's.
    pub async fn migrate(&self) -> Result<(), Error> {
        self.app.engine.store.migrate().await?;
        self.check().await
    }

    /// Checks that the table has the version that this build needs. Call it at start if the service does not call
    /// [`migrate`](Self::migrate).
    ///
    /// # Errors
    /// [`Error::SchemaMissing`], [`Error::SchemaVersion`], or [`Error::Database`] if the database cannot be reached.
    pub async fn check(&self) -> Result<(), Error> {
        self.app.engine.store.step(async move |mut connection| Db::check(&mut connection).await).await
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
