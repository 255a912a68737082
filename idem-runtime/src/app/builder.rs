//! The builder of an `Idempotency`: the application's defaults, its timeout and its error format.
//! The options of `#[idempotent]` override the defaults for one handler.

use std::{fmt, sync::Arc, time::Duration};

use axum::response::Response;
use futures_util::future::BoxFuture;
use http::request::Parts;
use sqlx::Pool;
use tokio_util::task::TaskTracker;

use super::{
    App, Idempotency,
    ignored_keys::IgnoredKeys,
    in_task::InTask,
    problem::{Problem, Render},
    sessions::Sessions,
};
use crate::{
    backend::{Backend, Schema, Schemas},
    engine::{Engine, Store, in_flight::InFlight},
    model::{
        handler_options::Policy,
        lease_duration::LeaseDuration,
        limits::{at_least_one, longer_than_zero, wait_longer_than_zero},
        namespace::Namespace,
        retention::Retention,
    },
};
// The types in the rows of the table, so that a new row needs no import here.
#[allow(clippy::wildcard_imports)]
use crate::model::options::*;

/// The choices of an application. The options of `#[idempotent]` override them for one handler.
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
    namespace: Namespace,
    schema: Schema,
    database_timeout: Duration,
    render: Option<Box<Render>>,
    in_task: Option<InTask>,
}

macro_rules! setters {
    ($($(#[$doc:meta])* $option:ident: $Type:ty $(as $Value:ty)? = $default:expr $(, $check:ident)?;)*) => {
        impl<Db: Backend> Builder<Db> {
            $(
                $(#[$doc])*
                #[track_caller]
                pub fn $option(mut self, $option: $Type) -> Self {
                    $(let $option = $check(stringify!($option), $option);)?
                    self.policy.$option = $option.into();
                    self
                }
            )*
        }
    };
}

with_options!(setters);

impl<Db: Backend> Builder<Db> {
    pub(super) fn new(pool: Pool<Db>) -> Self {
        Self {
            pool,
            policy: Policy::default(),
            namespace: Namespace::default(),
            schema: Schema::default(),
            database_timeout: Duration::from_secs(10),
            render: None,
            in_task: None,
        }
    }

    /// Sets the namespace of this service's keys, events and messages. Set it if another service keeps its records in the
    /// same table: without it, a request of one account with the same key, path and body gets the other service's response.
    /// Default: none.
    ///
    /// Do not change it later: every stored operation would be new. All instances of one service need the same namespace.
    /// The recovery finds stalled attempts by their operation, so give handlers with external effects names that differ
    /// between the services: `operation = "billing.charge"`.
    ///
    /// # Panics
    /// Unless the name is 1 to 128 visible ASCII characters.
    #[track_caller]
    pub fn namespace(mut self, namespace: impl AsRef<str>) -> Self {
        self.namespace = Namespace::new(namespace.as_ref());
        self
    }

    /// Sets how long one step against the database may take (a connection, a claim, a record, a commit) before the
    /// client gets a 503. Default: 10 seconds. A shorter `acquire_timeout` of the pool applies first. It is also how long a
    /// transaction that conflicts with others is run again.
    ///
    /// # Panics
    /// If it is zero.
    #[track_caller]
    pub fn database_timeout(mut self, database_timeout: Duration) -> Self {
        self.database_timeout = longer_than_zero("database_timeout", database_timeout);
        self
    }

    /// Renders idem's own responses in the application's error format. Default: `application/problem+json`.
    ///
    /// Keep [`Problem::status`], and send [`Problem::retry_after`] as `Retry-After`: clients need both to retry.
    pub fn render(mut self, render: impl Fn(Problem) -> Response + Send + Sync + 'static) -> Self {
        self.render = Some(Box::new(render));
        self
    }

    /// Carries the context of a request into the task in which its handler runs.
    ///
    /// A handler runs in a separate task, so that a disconnect does not stop it. A new task has no task-locals, no
    /// subscriber that a layer set for the request's future, and no context of OpenTelemetry. `in_task` is called where
    /// they are current, once for each request, after the extractors. It gets the parts of the request and the future
    /// of the task, and returns the future to run instead. Default: the future as it is.
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")]
    /// # fn build(pool: sqlx::SqlitePool) -> idem_runtime::Idempotency<sqlx::Sqlite> {
    /// use idem_runtime::Idempotency;
    /// use tracing::instrument::WithSubscriber;
    ///
    /// tokio::task_local! {
    ///     static TENANT: String;
    /// }
    ///
    /// Idempotency::builder(pool)
    ///     .in_task(|_parts, future| {
    ///         let future = future.with_current_subscriber();
    ///         match TENANT.try_with(Clone::clone) {
    ///             Ok(tenant) => Box::pin(TENANT.scope(tenant, future)),
    ///             Err(_) => Box::pin(future),
    ///         }
    ///     })
    ///     .build()
    /// # }
    /// ```
    ///
    /// With OpenTelemetry: `|_parts, future| Box::pin(future.with_context(Context::current()))`.
    pub fn in_task(
        mut self,
        in_task: impl Fn(&Parts, BoxFuture<'static, Response>) -> BoxFuture<'static, Response> + Send + Sync + 'static,
    ) -> Self {
        self.in_task = Some(InTask::new(in_task));
        self
    }

    /// Builds the [`Idempotency`]. Sends nothing to the database.
    #[must_use]
    pub fn build(self) -> Idempotency<Db> {
        let store = Store { pool: self.pool, timeout: self.database_timeout, schema: self.schema };
        let engine = Engine { store, in_flight: Arc::new(InFlight::default()) };
        let Self { policy, namespace, render, in_task, .. } = self;
        let (tasks, ignored_keys, sessions) = (TaskTracker::new(), IgnoredKeys::default(), Sessions::default());
        let app = App { engine, policy, namespace, tasks, ignored_keys, sessions, in_task, render };
        Idempotency { app: Arc::new(app) }
    }
}

impl<Db: Schemas> Builder<Db> {
    /// Sets the schema of the tables `idem_records` and `idem_schema`. Every statement names it, so the `search_path`
    /// does not matter. `migrate` creates the schema if it does not exist. Default: the first schema of the session's
    /// `search_path`.
    ///
    /// ```
    /// # fn build(pool: sqlx::PgPool) -> idem_runtime::Idempotency<sqlx::Postgres> {
    /// idem_runtime::Idempotency::builder(pool).schema("idem").build()
    /// # }
    /// ```
    ///
    /// # Panics
    /// Unless the name is 1 to 63 ASCII letters, digits and underscores, and does not begin with a digit.
    #[track_caller]
    pub fn schema(mut self, schema: impl AsRef<str>) -> Self {
        self.schema = Schema::named(schema.as_ref());
        self
    }
}

impl<Db: Backend> fmt::Debug for Builder<Db> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("policy", &self.policy).finish_non_exhaustive()
    }
}
