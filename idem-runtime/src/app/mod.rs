//! `Idempotency`, which an application's state holds, and the builder of its defaults.
//! This folder is what an operator configures and calls; requests go through `http`.

use std::{fmt, sync::Arc};

use axum::response::{IntoResponse, Response};
use sqlx::Pool;
use tokio_util::task::TaskTracker;

pub(crate) mod background;
pub(crate) mod builder;
pub(crate) mod drain;
mod ignored_keys;
pub(crate) mod in_task;
mod operations;
pub(crate) mod problem;
mod prune;
pub(crate) mod sessions;
pub(crate) mod telemetry;

pub use builder::Builder;
use ignored_keys::IgnoredKeys;
use in_task::InTask;
use problem::{Code, Problem, Render};
use sessions::Sessions;

use crate::{
    backend::{Backend, error::Error},
    engine::{Engine, guarded},
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
///
/// # Other states
///
/// - **`Arc<App>`** needs nothing more. Implement or derive `FromRef<App>`: idem implements it for the `Arc`. Your own
///   `impl FromRef<Arc<App>> for Idempotency<_>` does not compile, because both types are foreign to your crate (E0117).
/// - **No state, or a state of another crate**: an `Idempotency` is a state itself. Give it to the route:
///   `Router::new().route("/payments", post(pay).with_state(idempotency))`. If other extractors of the handler need a state,
///   give the route your own struct that derives `FromRef` and holds both.
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
    pub(crate) sessions: Sessions,
    pub(crate) in_task: Option<InTask>,
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
        guarded(|| render(problem)).unwrap_or_else(|_| problem.into_response())
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
    /// It waits up to two minutes for locks that others hold: handlers' transactions, or another process that starts. If that
    /// process creates the SQLite file at this moment, the pool must be lazy (`connect_lazy_with`): sqlx changes the journal
    /// mode when it connects, and only here is that tried again.
    ///
    /// To migrate manually, run the same statements from the crate's folder `migrations/`.
    ///
    /// # Errors
    /// - [`Error::Database`]: the database cannot be reached, or does not permit it.
    /// - [`Error::SchemaVersion`]: the table is newer than this build.
    /// - [`Error::SchemaMissing`]: a table of that name is not idem's.
    /// - The other errors of [`check`](Self::check), which it calls.
    pub async fn migrate(&self) -> Result<(), Error> {
        self.app.engine.store.migrate().await?;
        self.check().await
    }

    /// Checks that requests can work: the table's version and key, the role's rights, a database that accepts writes. Call it
    /// at start if the service does not call [`migrate`](Self::migrate). On PostgreSQL it writes a record in a transaction
    /// that it rolls back.
    ///
    /// Logs a warning if the database's settings can lose commits, or if the role may not delete records.
    ///
    /// # Errors
    /// - [`Error::SchemaMissing`], [`Error::SchemaVersion`]: call [`migrate`](Self::migrate).
    /// - [`Error::IdNotUnique`]: the table was changed or partitioned.
    /// - [`Error::NotPermitted`]: the role lacks a right that requests need.
    /// - [`Error::ReadOnly`]: a standby, or a role or file that cannot write.
    /// - [`Error::Database`]: the database cannot be reached, or returned another error.
    pub async fn check(&self) -> Result<(), Error> {
        self.app.engine.store.step(async move |mut connection, schema| Db::check(&mut connection, &schema).await).await
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
