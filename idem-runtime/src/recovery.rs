//! The recovery: sweeps up the records whose attempts are dead, and has each decided by its operation's reconciler.
//! Any number of nodes may sweep at once; each record is taken by one, with a lease of its own.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::{
    Idempotency,
    backend::{AttemptId, Backend, Holder, Survey, Take, Taken},
    background::BackgroundTask,
    effects::{storable, writes},
    engine::{Lease, Store, Unsettled},
    error::Error,
    external::Attempt,
    lengths,
    observe::{reconciled, surveyed},
    outcome::{Panicked, caught},
    reconcile::{AnyReconciler, Dead, Reconciler, Verdict},
    record::RecordId,
};

/// How many reconcilers are asked at once: one that hangs keeps the others from nothing.
const AT_ONCE: usize = 8;

/// The part of an error's text that is kept.
const LONGEST_ERROR: usize = 500;

/// How many of an error's sources are kept.
const MOST_SOURCES: usize = 20;

/// The longest pause: what every database can add to a time.
const LONGEST_PAUSE: Duration = Duration::from_hours(365 * 24);

impl<Db: Backend> Idempotency<Db> {
    /// Starts with no reconciler; see [`Recovery`].
    pub fn recovery(&self) -> Recovery<Db> {
        Recovery {
            idempotency: self.clone(),
            reconcilers: BTreeMap::new(),
            first_pause: Duration::from_secs(10),
            longest_pause: Duration::from_mins(10),
            most_asks: 20,
            limit: Duration::from_secs(30),
        }
    }
}

/// Decides records whose attempts are dead: whose lease has run out, because their process died, hung or was cut off.
///
/// ```
/// # use idem_runtime::{Attempt, BoxError, Dead, Idempotency, Reconciler, Verdict};
/// # #[cfg(feature = "postgres")] type Db = sqlx::Postgres;
/// # #[cfg(not(feature = "postgres"))] type Db = sqlx::Sqlite;
/// # struct AskNetwork;
/// # impl Reconciler<Db> for AskNetwork {
/// #     async fn reconcile(&self, _: &Dead, _: &mut Attempt<Db>) -> Result<Verdict, BoxError> { Ok(Verdict::Unknown) }
/// # }
/// # async fn serve(idempotency: Idempotency<Db>) {
/// use std::time::Duration;
///
/// let recovery = idempotency.recovery().on("create_charge", AskNetwork);
/// let background = recovery.run_every(Duration::from_secs(15));
/// // … serve …
/// background.stop().await;
/// # }
/// ```
#[must_use]
pub struct Recovery<Db: Backend> {
    idempotency: Idempotency<Db>,
    reconcilers: BTreeMap<String, Arc<dyn AnyReconciler<Db>>>,
    first_pause: Duration,
    longest_pause: Duration,
    most_asks: u32,
    limit: Duration,
}

/// What a sweep did, in records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Swept {
    /// Decided: it had happened.
    pub completed: u64,
    /// Decided: it had not, and the key is free.
    pub freed: u64,
    /// The reconciler could not tell yet; it is asked again later.
    pub unknown: u64,
    /// The reconciler failed, panicked or did not answer in time, or its verdict could not be written or came too late; it is
    /// asked again later.
    pub failed: u64,
    /// Dead, but of an operation without a reconciler here: not touched.
    pub unattended: u64,
    /// Dead, but asked about too often: not touched.
    pub exhausted: u64,
}

impl<Db: Backend> Recovery<Db> {
    /// Has the dead attempts of this operation decided by this reconciler. A second one for an operation replaces the first.
    pub fn on(mut self, operation: impl Into<String>, reconciler: impl Reconciler<Db>) -> Self {
        self.reconcilers.insert(operation.into(), Arc::new(reconciler));
        self
    }

    /// How long a record waits until its reconciler is asked again: `first`, doubled each time up to `longest`.
    /// Default: 10 seconds, up to 10 minutes. No pause is longer than a year.
    pub fn backoff(mut self, first: Duration, longest: Duration) -> Self {
        (self.first_pause, self.longest_pause) = (first, longest.min(LONGEST_PAUSE));
        self
    }

    /// How often a reconciler is asked about one record, before that is left to a person. Default: 20.
    pub fn most_asks(mut self, most: u32) -> Self {
        // What the databases count to.
        self.most_asks = most.min(i32::MAX.unsigned_abs());
        self
    }

    /// How long a reconciler may take for one record. Default: 30 seconds.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Asks once about every record whose attempt is dead at this moment, and returns what came of it. One statement if there
    /// is none. Dropped before its end, it lets what is being asked end, and asks nothing more.
    ///
    /// # Errors
    /// [`Error::Database`] if the database fails; what was decided before stays so.
    pub async fn sweep(&self) -> Result<Swept, Error> {
        let stopped = CancellationToken::new();
        let _dropped = stopped.clone().drop_guard();
        self.sweep_until(&stopped).await
    }

    /// Sweeps in the background, at once and then `period` after each sweep, until the task is stopped or dropped. A failure
    /// is logged, and the next sweep tries again. A quarter of the lease is a sensible period.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn run_every(self, period: Duration) -> BackgroundTask {
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

    async fn sweep_until(&self, stopped: &CancellationToken) -> Result<Swept, Error> {
        let began = Instant::now();
        let operations: Vec<_> = self.reconcilers.keys().map(String::as_str).collect();
        let survey = Db::survey(self.idempotency.pool(), &operations, self.most_asks).await?;
        surveyed(survey);
        let Survey { due, unattended, exhausted } = survey;
        let swept = Arc::new(Mutex::new(Swept { unattended, exhausted, ..Swept::default() }));
        // Tasks of their own: a sweep that is dropped breaks off no statement, and `drain` waits for them.
        let workers = (0..AT_ONCE).zip(0..due).map(|(first, _)| {
            let (recovery, stopped, swept) = (self.clone(), stopped.clone(), Arc::clone(&swept));
            let worker = Worker { recovery, first, began, stopped, swept };
            self.idempotency.app.tasks.spawn(worker.run())
        });
        for ended in join_all(workers).await {
            match ended {
                Ok(worked) => worked?,
                // A worker panics over nothing of a reconciler's, and is aborted only where the runtime shuts down.
                Err(failed) => tracing::error!(error = &failed as &dyn std::error::Error, "a part of a sweep failed"),
            }
        }
        let swept = *swept.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(swept)
    }

    fn store(&self) -> &Store<Db> {
        &self.idempotency.app.engine.store
    }

    /// How long a record that was asked about this often waits.
    fn pause(&self, asked: u32) -> Duration {
        self.first_pause.saturating_mul(2_u32.saturating_pow(asked)).min(self.longest_pause)
    }

    /// Asks about one record, and ends it as told.
    async fn decide(&self, taken: Taken, attempt: AttemptId) -> Told {
        let dead = Dead::of(taken);
        let RecordId(id) = dead.id();
        let holder = Holder { id, attempt };
        let isolation = self.idempotency.app.policy.isolation;
        let lease = Lease::taken(self.store().clone(), holder);
        let mut attempt =
            Attempt::new(self.store().clone(), id, dead.operation().to_owned().into(), isolation, Some(lease));
        let verdict = self.ask(&dead, &mut attempt).await;
        let (Some(lease), transaction) = attempt.into_parts() else { return Told::Failed };
        let pause = self.pause(dead.asked());
        let (said, ended) = match verdict {
            Ok(Verdict::NeverExecuted) => (Told::Freed, lease.free(transaction).await),
            Ok(Verdict::Unknown) => (Told::Unknown, lease.postpone(transaction, pause, None).await),
            Ok(Verdict::Completed(response)) => {
                let writes = writes(&response);
                match storable(response, Vec::new(), self.idempotency.app.policy).await {
                    Ok((record, _)) => (Told::Completed, lease.complete(transaction, writes, record).await),
                    Err(code) => {
                        let error = format!("the response of the verdict cannot be stored: {}", code.as_str());
                        (Told::Failed, lease.postpone(transaction, pause, Some(error)).await)
                    }
                }
            }
            Err(error) => (Told::Failed, lease.postpone(transaction, pause, Some(error)).await),
        };
        let told = match ended {
            Ok(()) => said,
            Err(unsettled) => {
                self.not_written(holder, pause, unsettled).await;
                Told::Failed
            }
        };
        reconciled(&dead, told.as_str());
        told
    }

    async fn ask(&self, dead: &Dead, attempt: &mut Attempt<Db>) -> Result<Verdict, String> {
        let Some(reconciler) = self.reconcilers.get(dead.operation()) else { return Ok(Verdict::Unknown) };
        // An error's text is the reconciler's own code too, and may panic.
        let asking = caught(async { reconciler.ask(dead, attempt).await.map_err(|error| shown(&*error)) });
        let failed = match timeout(self.limit, asking).await {
            Ok(Ok(Ok(verdict))) => return Ok(verdict),
            Ok(Ok(Err(error))) => error,
            Ok(Err(Panicked)) => "the reconciler panicked".to_owned(),
            Err(_) => format!("the reconciler did not answer in {:?}", self.limit),
        };
        tracing::error!(
            record = %dead.id(),
            operation = dead.operation(),
            error = failed,
            "a reconciler failed"
        );
        Err(failed)
    }

    /// A verdict that could not be written is asked for again, but not at once.
    async fn not_written(&self, holder: Holder, pause: Duration, why: Unsettled) {
        let error = format!("the verdict could not be written: {why:?}");
        let postponed = self
            .store()
            .step(async move |mut connection| Db::postpone(&mut connection, &holder, pause, Some(&error), None).await)
            .await;
        if let Err(error) = postponed {
            tracing::error!(error = &error as &dyn std::error::Error, "the idempotency store failed");
        }
    }
}

impl<Db: Backend> Clone for Recovery<Db> {
    fn clone(&self) -> Self {
        Self {
            idempotency: self.idempotency.clone(),
            reconcilers: self.reconcilers.clone(),
            first_pause: self.first_pause,
            longest_pause: self.longest_pause,
            most_asks: self.most_asks,
            limit: self.limit,
        }
    }
}

impl<Db: Backend> fmt::Debug for Recovery<Db> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recovery").field("operations", &self.reconcilers.keys()).finish_non_exhaustive()
    }
}

/// What came of one record.
#[derive(Clone, Copy, Debug)]
enum Told {
    Completed,
    Freed,
    Unknown,
    Failed,
}

impl Told {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Freed => "freed",
            Self::Unknown => "unknown",
            Self::Failed => "failed",
        }
    }
}

/// One of those who take dead attempts, one by one, until none is due.
struct Worker<Db: Backend> {
    recovery: Recovery<Db>,
    /// At which operation it begins: not all at the same, or one whose reconciler hangs would keep the others from theirs.
    first: usize,
    /// When the sweep did: what it has postponed since is not due in it again.
    began: Instant,
    stopped: CancellationToken,
    swept: Arc<Mutex<Swept>>,
}

impl<Db: Backend> Worker<Db> {
    async fn run(self) -> Result<(), Error> {
        let operations = self.recovery.reconcilers.keys();
        let count = operations.len();
        for operation in operations.cycle().skip(self.first).take(count) {
            while let Some((taken, attempt)) = self.take(operation).await? {
                let told = self.recovery.decide(taken, attempt).await;
                let mut swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner);
                let count = match told {
                    Told::Completed => &mut swept.completed,
                    Told::Freed => &mut swept.freed,
                    Told::Unknown => &mut swept.unknown,
                    Told::Failed => &mut swept.failed,
                };
                *count += 1;
            }
        }
        Ok(())
    }

    async fn take(&self, operation: &str) -> Result<Option<(Taken, AttemptId)>, Error> {
        if self.stopped.is_cancelled() {
            return Ok(None);
        }
        let attempt = AttemptId::random().map_err(|error| sqlx::Error::Io(error.into()))?;
        let take = Take::Due { operation, since: self.began.elapsed(), most_asks: self.recovery.most_asks };
        // Time to ask, and to write the verdict.
        let length =
            self.recovery.limit.saturating_add(self.recovery.store().patience).min(lengths::Lease::MAX.length());
        let taken = Db::take(self.recovery.idempotency.pool(), take, attempt, length).await?;
        Ok(taken.map(|taken| (taken, attempt)))
    }
}

/// An error's text with that of its sources, as far as it is kept.
fn shown(error: &dyn std::error::Error) -> String {
    let sources = std::iter::successors(Some(error), |error| error.source()).take(MOST_SOURCES);
    let text = sources.map(ToString::to_string).collect::<Vec<_>>().join(": ");
    text.chars().filter(|character| *character != '\0').take(LONGEST_ERROR).collect()
}
