//! The builder of an `Idempotency`: the application's defaults, its timeout and its error format.
//! The options of `#[idempotent]` override the defaults for one handler.

use std::{fmt, sync::Arc, time::Duration};

use axum::response::Response;
use sqlx::Pool;
use tokio_util::task::TaskTracker;

use super::{
    App, Idempotency,
    problem::{Problem, Render},
};
use crate::{
    backend::Backend,
    engine::{Engine, Store, in_flight::InFlight},
    model::{
        handler_options::Policy,
        lease_duration::LeaseDuration,
        options::{
            FingerprintRule, InProgress, Isolation, KeyFormat, KeyPresence, Methods, Mismatch, OnServerError, SetCookie,
        },
        retention::Retention,
    },
};

/// The defaults of an application. Each option of the attribute has one here; the attribute overrides it.
///
/// ```
/// # #[cfg(feature = "sqlite")]
/// # fn build(pool: sqlx::SqlitePool) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use idem_runtime::{Idempotency, Retention, options::{InProgress, Mismatch}};
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
    database_timeout: Duration,
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
    /// What a request is compared by. Default: [`FingerprintRule::Bytes`].
    fingerprint: FingerprintRule,
    /// What a twin of a running request meets. Default: [`InProgress::Reject`].
    in_progress: InProgress,
    /// How long an attempt with external effects may stay in progress without renewal. Default:
    /// [`LeaseDuration::MINUTE`].
    lease: LeaseDuration,
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
    pub(super) fn new(pool: Pool<Db>) -> Self {
        Self { pool, policy: Policy::default(), database_timeout: Duration::from_secs(10), render: None }
    }

    /// The longest that any one step against the database may take (a connection, a claim, a record, a commit) before
    /// the client is told `503`. Default: 10 seconds; zero refuses everything. A pool's shorter `acquire_timeout` comes
    /// first.
    pub fn database_timeout(mut self, database_timeout: Duration) -> Self {
        self.database_timeout = database_timeout;
        self
    }

    /// Renders idem's own responses in the application's error format. Default: `application/problem+json`.
    ///
    /// Keep [`Problem::status`], and send [`Problem::retry_after`] as `Retry-After`: clients need both to retry.
    pub fn render(mut self, render: impl Fn(Problem) -> Response + Send + Sync + 'static) -> Self {
        self.render = Some(Box::new(render));
        self
    }

    /// Builds the [`Idempotency`]. Sends nothing to the database.
    #[must_use]
    pub fn build(self) -> Idempotency<Db> {
        let store = Store { pool: self.pool, timeout: self.database_timeout };
        let engine = Engine { store, in_flight: Arc::new(InFlight::default()) };
        let app = App { engine, policy: self.policy, tasks: TaskTracker::new(), render: self.render };
        Idempotency { app: Arc::new(app) }
    }
}

impl<Db: Backend> fmt::Debug for Builder<Db> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("policy", &self.policy).finish_non_exhaustive()
    }
}
