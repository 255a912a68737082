//! Recovery: reconcilers decide the records of stalled attempts, in one sweep or in the background.
//!
//! An attempt with external effects is stalled when its lease has expired. [`Recovery`] asks the [`Reconciler`] of its
//! operation what happened; [`Idempotency::resolve`] decides a record manually.

pub(crate) mod reconcile;
pub(crate) mod resolve;
mod stalled;
mod sweep;
mod telemetry;

pub use crate::model::stored_request::StoredRequest;
pub use reconcile::{BoxError, Reconciler, Verdict};
pub use resolve::ResolveError;
pub use stalled::StalledAttempt;

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use crate::{
    app::{Idempotency, background::BackgroundTask},
    backend::{Backend, error::Error},
    model::{
        limits::{at_least_one, longer_than_zero},
        operation::check_operation,
    },
    recovery::reconcile::AnyReconciler,
};

/// The longest pause, which every database can add to a time.
const MAX_PAUSE: Duration = Duration::from_hours(365 * 24);

impl<Db: Backend> Idempotency<Db> {
    /// Creates a recovery without reconcilers; see [`Recovery`].
    pub fn recovery(&self) -> Recovery<Db> {
        Recovery {
            idempotency: self.clone(),
            reconcilers: BTreeMap::new(),
            first_pause: Duration::from_secs(10),
            longest_pause: Duration::from_mins(10),
            max_tries: 20,
            reconcile_timeout: Duration::from_secs(30),
            max_response: self.app.policy.max_response,
        }
    }
}

/// Decides the records of stalled attempts: their lease expired, because their process died, hung or was cut off.
///
/// ```
/// # use idem_runtime::{Attempt, Idempotency, recovery::{BoxError, Reconciler, StalledAttempt, Verdict}};
/// # #[cfg(feature = "postgres")] type Db = sqlx::Postgres;
/// # #[cfg(not(feature = "postgres"))] type Db = sqlx::Sqlite;
/// # struct AskNetwork;
/// # impl Reconciler<Db> for AskNetwork {
/// #     async fn reconcile(&self, _: &StalledAttempt, _: &mut Attempt<Db>) -> Result<Verdict, BoxError> { Ok(Verdict::Unknown) }
/// # }
/// # async fn serve(idempotency: Idempotency<Db>) {
/// use std::time::Duration;
///
/// let recovery = idempotency.recovery().reconciler("create_charge", AskNetwork);
/// let background = recovery.run_every(Duration::from_secs(15));
/// // … serve …
/// background.stop().await;
/// # }
/// ```
#[must_use]
pub struct Recovery<Db: Backend> {
    pub(crate) idempotency: Idempotency<Db>,
    pub(crate) reconcilers: BTreeMap<String, Arc<dyn AnyReconciler<Db>>>,
    pub(crate) first_pause: Duration,
    pub(crate) longest_pause: Duration,
    pub(crate) max_tries: u32,
    pub(crate) reconcile_timeout: Duration,
    pub(crate) max_response: usize,
}

/// What a sweep did: each field is a number of records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SweepReport {
    /// Decided: the operation happened, and its response is stored.
    pub completed: u64,
    /// Decided: the operation did not happen, and the key was released.
    pub released: u64,
    /// The reconciler cannot tell yet; it is called again later.
    pub unknown: u64,
    /// The reconciler failed, panicked or exceeded its timeout, or its verdict could not be written or was late; it is
    /// called again later.
    pub failed: u64,
    /// Stalled, but their operation has no reconciler here: not changed.
    pub no_reconciler: u64,
    /// Stalled, but tried [`max_tries`](Recovery::max_tries) times: not changed.
    pub gave_up: u64,
}

impl<Db: Backend> Recovery<Db> {
    /// Sets the reconciler for the stalled attempts of an operation. A second one for the same operation replaces the
    /// first.
    ///
    /// `operation` is the stored name: the attribute's `operation`, or else the function's name. The names are not
    /// checked against the handlers: a reconciler for an unknown name is never called, and the attempts are counted as
    /// [`no_reconciler`](SweepReport::no_reconciler).
    ///
    /// # Panics
    /// Unless the operation is 1 to 128 visible ASCII characters.
    #[track_caller]
    pub fn reconciler(mut self, operation: impl Into<String>, reconciler: impl Reconciler<Db>) -> Self {
        let operation = operation.into();
        check_operation(&operation);
        self.reconcilers.insert(operation, Arc::new(reconciler));
        self
    }

    /// Sets the pause before a reconciler is called again for a record: `first`, doubled each time up to `longest`.
    /// Default: 10 seconds, up to 10 minutes. No pause is longer than a year.
    ///
    /// # Panics
    /// If a pause is zero.
    #[track_caller]
    pub fn backoff(mut self, first: Duration, longest: Duration) -> Self {
        self.first_pause = longer_than_zero("backoff", first);
        self.longest_pause = longer_than_zero("backoff", longest).min(MAX_PAUSE);
        self
    }

    /// Sets how often a reconciler is called for one record. After that, resolve the record manually. Default: 20.
    ///
    /// # Panics
    /// If it is zero.
    #[track_caller]
    pub fn max_tries(mut self, limit: u32) -> Self {
        // The databases' count is an `i32`.
        self.max_tries = at_least_one("max_tries", limit).min(i32::MAX.unsigned_abs());
        self
    }

    /// Sets how long a reconciler may take for one record. Default: 30 seconds.
    ///
    /// # Panics
    /// If it is zero.
    #[track_caller]
    pub fn reconcile_timeout(mut self, timeout: Duration) -> Self {
        self.reconcile_timeout = longer_than_zero("reconcile_timeout", timeout);
        self
    }

    /// Sets the largest response body of a verdict that is stored, in bytes. Default: the application's. Set it if a
    /// handler's `max_response` is larger.
    ///
    /// # Panics
    /// If it is zero.
    #[track_caller]
    pub fn max_response(mut self, limit: usize) -> Self {
        self.max_response = at_least_one("max_response", limit);
        self
    }

    /// Asks the reconciler once for every stalled record, and reports the outcomes. Costs one statement if there are
    /// none. If dropped, reconcilers already running finish and no new ones start.
    ///
    /// # Errors
    /// [`Error::Database`] if the database fails; the records decided before stay decided.
    pub async fn sweep(&self) -> Result<SweepReport, Error> {
        let stopped = CancellationToken::new();
        let _dropped = stopped.clone().drop_guard();
        self.sweep_until(&stopped).await
    }

    /// Sweeps in the background, at once and then `period` after each sweep, until the task is stopped or dropped. A
    /// failure is logged, and the next sweep tries again. A quarter of the lease is a sensible period.
    ///
    /// # Panics
    /// If the period is zero, and outside a tokio runtime.
    #[track_caller]
    pub fn run_every(self, period: Duration) -> BackgroundTask {
        let period = longer_than_zero("run_every", period);
        let recovery = Arc::new(self);
        BackgroundTask::every(period, move |stopped| {
            let recovery = Arc::clone(&recovery);
            async move {
                match recovery.sweep_until(&stopped).await {
                    Ok(swept) => tracing::debug!(?swept, "swept"),
                    Err(error) => tracing::error!(error = &error as &dyn std::error::Error, "a sweep failed"),
                }
            }
        })
    }
}

impl<Db: Backend> Clone for Recovery<Db> {
    fn clone(&self) -> Self {
        Self {
            idempotency: self.idempotency.clone(),
            reconcilers: self.reconcilers.clone(),
            first_pause: self.first_pause,
            longest_pause: self.longest_pause,
            max_tries: self.max_tries,
            reconcile_timeout: self.reconcile_timeout,
            max_response: self.max_response,
        }
    }
}

impl<Db: Backend> fmt::Debug for Recovery<Db> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recovery").field("operations", &self.reconcilers.keys()).finish_non_exhaustive()
    }
}
