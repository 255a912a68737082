//! One sweep of a recovery: takes stalled attempts one by one, has each asked about, and writes the verdict.
//! Every record is taken by one node with a lease of its own, so that a node that dies harms none.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::{
    backend::{AttemptId, Backend, Holder, StalledRow, Survey, Take, error::Error},
    engine::{Lease, Panicked, SettleError, Store, attempt::Attempt, caught},
    http::effects::{storable, writes},
    model::{handler_options::Policy, lease_duration},
    recovery::telemetry::{reconciled, surveyed},
    recovery::{Recovery, StalledAttempt, SweepReport, reconcile::Verdict},
};

/// How many reconcilers are asked at once: one that hangs keeps the others from nothing. (On SQLite, if it hangs with its
/// transaction open, it keeps them from writing, as it keeps every handler.)
const AT_ONCE: usize = 8;

/// The part of an error's text that is kept.
const MAX_ERROR_CHARS: usize = 500;

/// How many of an error's sources are kept.
const MAX_SOURCES: usize = 20;

impl<Db: Backend> Recovery<Db> {
    pub(crate) async fn sweep_until(&self, stopped: &CancellationToken) -> Result<SweepReport, Error> {
        let started_at = Instant::now();
        let (operations, max_tries): (Vec<_>, _) = (self.reconcilers.keys().cloned().collect(), self.max_tries);
        let surveying = self.store().step(async move |mut connection| {
            let operations: Vec<_> = operations.iter().map(String::as_str).collect();
            Db::survey(&mut connection, &operations, max_tries).await
        });
        let survey = surveying.await?;
        surveyed(survey);
        let Survey { due, no_reconciler, gave_up } = survey;
        let swept = Arc::new(Mutex::new(SweepReport { no_reconciler, gave_up, ..SweepReport::default() }));
        // Tasks of their own: a sweep that is dropped breaks off no statement, and `drain` waits for them.
        let workers = (0..AT_ONCE).zip(0..due).map(|(first, _)| {
            let (recovery, stopped, swept) = (self.clone(), stopped.clone(), Arc::clone(&swept));
            let worker = Worker { recovery, first, started_at, stopped, swept };
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
    async fn decide(&self, taken: StalledRow, attempt: AttemptId) -> SweepOutcome {
        let stalled = StalledAttempt::of(taken);
        let id = stalled.id();
        let holder = Holder { id, attempt };
        let isolation = self.idempotency.app.policy.isolation;
        let lease = Lease::taken_over(self.store().clone(), holder);
        let mut attempt =
            Attempt::new(self.store().clone(), id, stalled.operation().to_owned().into(), isolation, Some(lease));
        let verdict = self.ask(&stalled, &mut attempt).await;
        let (Some(lease), transaction) = attempt.into_parts() else { return SweepOutcome::Failed };
        let pause = self.pause(stalled.tries());
        let (said, ended) = match verdict {
            Ok(Verdict::NeverExecuted) => (SweepOutcome::Released, lease.release(transaction).await),
            Ok(Verdict::Unknown) => (SweepOutcome::Unknown, lease.postpone(transaction, pause, None).await),
            Ok(Verdict::Completed(response)) => {
                let writes = writes(&response);
                let policy = Policy { max_response: self.max_response, ..self.idempotency.app.policy };
                match storable(response, Vec::new(), policy).await {
                    Ok((record, _)) => (SweepOutcome::Completed, lease.complete(transaction, writes, record).await),
                    Err(code) => {
                        let error = format!("the response of the verdict cannot be stored: {}", code.as_str());
                        (SweepOutcome::Failed, lease.postpone(transaction, pause, Some(error)).await)
                    }
                }
            }
            Err(error) => (SweepOutcome::Failed, lease.postpone(transaction, pause, Some(error)).await),
        };
        let told = match ended {
            Ok(()) => said,
            Err(unsettled) => {
                self.not_written(holder, pause, unsettled).await;
                SweepOutcome::Failed
            }
        };
        reconciled(&stalled, told.as_str());
        told
    }

    async fn ask(&self, stalled: &StalledAttempt, attempt: &mut Attempt<Db>) -> Result<Verdict, String> {
        let Some(reconciler) = self.reconcilers.get(stalled.operation()) else { return Ok(Verdict::Unknown) };
        // An error's text is the reconciler's own code too, and may panic.
        let asking = caught(async { reconciler.ask(stalled, attempt).await.map_err(|error| shown(&*error)) });
        let failed = match timeout(self.reconcile_timeout, asking).await {
            Ok(Ok(Ok(verdict))) => return Ok(verdict),
            Ok(Ok(Err(error))) => error,
            Ok(Err(Panicked)) => "the reconciler panicked".to_owned(),
            Err(_) => format!("the reconciler did not answer in {:?}", self.reconcile_timeout),
        };
        tracing::error!(
            record = %stalled.id(),
            operation = stalled.operation(),
            error = failed,
            "a reconciler failed"
        );
        Err(failed)
    }

    /// A verdict that could not be written is asked for again, but not at once.
    async fn not_written(&self, holder: Holder, pause: Duration, unsettled: SettleError) {
        let error = format!("the verdict could not be written: {:?}", unsettled.kind);
        let postponed = self
            .store()
            .step(async move |mut connection| Db::postpone(&mut connection, &holder, pause, Some(&error), None).await)
            .await;
        if let Err(error) = postponed {
            tracing::error!(error = &error as &dyn std::error::Error, "the idempotency store failed");
        }
    }
}

/// What came of one record.
#[derive(Clone, Copy, Debug)]
enum SweepOutcome {
    Completed,
    Released,
    Unknown,
    Failed,
}

impl SweepOutcome {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            SweepOutcome::Released => "released",
            Self::Unknown => "unknown",
            Self::Failed => "failed",
        }
    }
}

/// One of those who take stalled attempts, one by one, until none is due.
struct Worker<Db: Backend> {
    recovery: Recovery<Db>,
    /// At which operation it begins: not all at the same, or one whose reconciler hangs would keep the others from theirs.
    first: usize,
    /// When the sweep started. An attempt that it postponed is not due in it again.
    started_at: Instant,
    stopped: CancellationToken,
    swept: Arc<Mutex<SweepReport>>,
}

impl<Db: Backend> Worker<Db> {
    async fn run(self) -> Result<(), Error> {
        // One record of each operation in turn: an operation whose reconciler is slow does not keep the others waiting.
        let mut operations: VecDeque<_> = self.recovery.reconcilers.keys().collect();
        operations.rotate_left(self.first % operations.len().max(1));
        while let Some(operation) = operations.pop_front() {
            let Some((taken, attempt)) = self.take(operation).await? else { continue };
            operations.push_back(operation);
            let told = self.recovery.decide(taken, attempt).await;
            let mut swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner);
            let count = match told {
                SweepOutcome::Completed => &mut swept.completed,
                SweepOutcome::Released => &mut swept.released,
                SweepOutcome::Unknown => &mut swept.unknown,
                SweepOutcome::Failed => &mut swept.failed,
            };
            *count += 1;
        }
        Ok(())
    }

    async fn take(&self, operation: &str) -> Result<Option<(StalledRow, AttemptId)>, Error> {
        if self.stopped.is_cancelled() {
            return Ok(None);
        }
        let attempt = AttemptId::random().map_err(|error| sqlx::Error::Io(error.into()))?;
        let (operation, sweep_age, max_tries) =
            (operation.to_owned(), self.started_at.elapsed(), self.recovery.max_tries);
        // Time to ask, and to write the verdict.
        let length = self
            .recovery
            .reconcile_timeout
            .saturating_add(self.recovery.store().timeout)
            .min(lease_duration::LeaseDuration::MAX.length());
        let taking = self.recovery.store().step(async move |mut connection| {
            let take = Take::Due { operation: &operation, sweep_age, max_tries };
            Db::take(&mut connection, take, attempt, length).await
        });
        Ok(taking.await?.map(|taken| (taken, attempt)))
    }
}

/// An error's text with that of its sources, as far as it is kept.
fn shown(error: &dyn std::error::Error) -> String {
    let sources = std::iter::successors(Some(error), |error| error.source()).take(MAX_SOURCES);
    let text = sources.map(ToString::to_string).collect::<Vec<_>>().join(": ");
    text.chars().filter(|character| *character != '\0').take(MAX_ERROR_CHARS).collect()
}
