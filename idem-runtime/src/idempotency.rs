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

use crate::{
    backend::Backend,
    engine::{Engine, Store, unbroken},
    error::Error,
    lengths::{Lease, Retention},
    policy::{
        Fingerprint, InProgress, Isolation, KeyFormat, KeyPresence, Methods, Mismatch, OnServerError, Policy, SetCookie,
    },
    problem::{Code, Problem},
    running::Running,
};

type Render = dyn Fn(Problem) -> Response + Send + Sync;

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
    render: Option<Box<Render>>,
}

impl<Db: Backend> App<Db> {
    /// One of idem's own answers, in the application's format if it has one.
    pub(crate) fn render(&self, code: Code, mismatch: Mismatch) -> Response {
        self.answer(Problem::of(code, mismatch))
    }

    pub(crate) fn answer(&self, problem: Problem) -> Response {
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
        Builder { pool, policy: Policy::default(), patience: Duration::from_secs(10), render: None }
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
    /// `drain` does not wait for a database step that exceeded [`patience`](Builder::patience): its client has already
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

/// The defaults of an application. Each option of the attribute has one here; the attribute overrides it.
///
/// ```
/// # #[cfg(feature = "sqlite")]
/// # fn build(pool: sqlx::SqlitePool) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use idem_runtime::{Idempotency, InProgress, Mismatch, Retention};
///
/// let idempotency = Idempotency::builder(pool)
///     .mismatch(Mismatch::BadRequest)
///     .retention(Retention::new(Duration::from_secs(7 * 24 * 60 * 60))?)
///     .in_progress(InProgress::Wait(Duration::from_secs(2)))
///     .build();
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct Builder<Db: Backend> {
    pool: Pool<Db>,
    policy: Policy,
    patience: Duration,
    render: Option<Box<Render>>,
}

/// One setter an option of the attribute.
macro_rules! defaults {
    ($($(#[$doc:meta])* $option:ident: $Type:ty,)*) => {
        impl<Db: Backend> Builder<Db> {
            $(
                $(#[$doc])*
                pub fn $option(mut self, $option: $Type) -> Self {
                    self.policy.$option = $option.into();
                    self
                }
            )*
        }
    };
}

defaults! {
    /// Whether a protected request must carry a key. Default: [`KeyPresence::Required`].
    key: KeyPresence,
    /// The form of keys. Default: [`KeyFormat::Any`].
    key_format: KeyFormat,
    /// The status of a key reused for another request. Default: [`Mismatch::Unprocessable`].
    mismatch: Mismatch,
    /// How long records answer. Default: [`Retention::DAY`].
    retention: Retention,
    /// What a request is compared by. Default: [`Fingerprint::Bytes`].
    fingerprint: Fingerprint,
    /// What a twin of a running request meets. Default: [`InProgress::Reject`].
    in_progress: InProgress,
    /// How long an attempt with external effects may stay in progress without renewal. Default: [`Lease::MINUTE`].
    lease: Lease,
    /// What becomes of a 5xx or a panic. Default: [`OnServerError::Store`].
    on_server_error: OnServerError,
    /// The isolation level of transactions. Default: the database's own.
    isolation: Isolation,
    /// The largest response body that is stored, in bytes. Default: 1 MiB.
    max_response: usize,
    /// The methods that are protected. Default: [`Methods::PostAndPatch`].
    methods: Methods,
    /// Whether a replay repeats `Set-Cookie` lines. Default: [`SetCookie::Replay`].
    set_cookie: SetCookie,
}

impl<Db: Backend> Builder<Db> {
    /// The longest that any one step against the database may take (a connection, a claim, a record, a commit) before
    /// the client is told `503`. Default: 10 seconds; zero refuses everything. A pool's shorter `acquire_timeout` comes first.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Renders idem's own answers in the application's error format. Default: `application/problem+json`.
    ///
    /// Keep [`Problem::status`], and send [`Problem::retry_after`] as `Retry-After`: clients retry by them.
    pub fn render(mut self, render: impl Fn(Problem) -> Response + Send + Sync + 'static) -> Self {
        self.render = Some(Box::new(render));
        self
    }

    /// Builds the [`Idempotency`]. Sends nothing to the database.
    #[must_use]
    pub fn build(self) -> Idempotency<Db> {
        let store = Store { pool: self.pool, patience: self.patience };
        let engine = Engine { store, running: Arc::new(Running::default()) };
        let app = App { engine, policy: self.policy, tasks: TaskTracker::new(), render: self.render };
        Idempotency { app: Arc::new(app) }
    }
}

impl<Db: Backend> fmt::Debug for Builder<Db> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("policy", &self.policy).finish_non_exhaustive()
    }
}
