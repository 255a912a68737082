//! One sweep of a recovery: takes stalled attempts one by one, calls the reconciler, and writes the verdict.
//! A node takes each record with a new lease, so that a node that dies blocks no record.

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

/// How many reconcilers run at once, so that one that hangs does not block the others. (On SQLite, one that hangs with
/// its transaction open blocks every writer.)
const AT_ONCE: usize = 8;

/// How much of an error's text is stored.
const MAX_ERROR_CHARS: usize = 500;

/// How many of an error's sources are stored.
const MAX_SOURCES: usize = 20;

impl<Db: Backend> Recovery<Db> {
    pub(crate) async fn sweep_until(&self, stopped: &CancellationToken) -> Result<SweepReport, Error> {
        let started_at = Instant::now();
        let (operations, max_tries): (Vec<_>, _) = (self.reconcilers.keys().cloned().collect(), self.max_tries);
        let surveying = self.store().step(async move |mut connection, schema| {
            let operations: Vec<_> = operations.iter().map(String::as_str).collect();
            Db::survey(&mut connection, &schema, &operations, max_tries).await
        });
        let survey = surveying.await?;
        surveyed(survey);
        let Survey { due, no_reconciler, gave_up } = survey;
        let swept = Arc::new(Mutex::new(SweepReport { no_reconciler, gave_up, ..SweepReport::default() }));
        // In tasks: dropping a sweep interrupts no statement, and `drain` waits for them.
        let workers = (0..AT_ONCE).zip(0..due).map(|(first, _)| {
            let (recovery, stopped, swept) = (self.clone(), stopped.clone(), Arc::clone(&swept));
            let worker = Worker { recovery, first, started_at, stopped, swept };
            self.idempotency.app.tasks.spawn(worker.run())
        });
        for ended in join_all(workers).await {
            match ended {
                Ok(worked) => worked?,
                // A reconciler's panic is caught; a worker is aborted only when the runtime shuts down.
                Err(failed) => tracing::error!(error = &failed as &dyn std::error::Error, "a part of a sweep failed"),
            }
        }
        let swept = *swept.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(swept)
    }

    fn store(&self) -> &Store<Db> {
        &self.idempotency.app.engine.store
    }

    /// The pause before the next try, after this number of tries.
    fn pause(&self, tries: u32) -> Duration {
        self.first_pause.saturating_mul(2_u32.saturating_pow(tries)).min(self.longest_pause)
    }

    /// Asks the reconciler about one record, and writes the verdict.
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
        let (decided, settled) = match verdict {
            Ok(Verdict::NeverExecuted) => (SweepOutcome::Released, lease.release(transaction).await),
            Ok(Verdict::Unknown) => (SweepOutcome::Unknown, lease.postpone(transaction, pause, None).await),
            Ok(Verdict::Completed(response)) => {
                let writes = writes(&response);
                let policy = Policy { max_response: self.max_response, ..self.idempotency.app.policy };
                match storable(response, &id, Vec::new(), policy).await {
                    Ok((record, _)) => (SweepOutcome::Completed, lease.complete(transaction, writes, record).await),
                    Err(code) => {
                        let error = format!("the response of the verdict cannot be stored: {}", code.as_str());
                        (SweepOutcome::Failed, lease.postpone(transaction, pause, Some(error)).await)
                    }
                }
            }
            Err(error) => (SweepOutcome::Failed, lease.postpone(transaction, pause, Some(error)).await),
        };
        let outcome = match settled {
            Ok(()) => decided,
            Err(unsettled) => {
                self.not_written(holder, pause, unsettled).await;
                SweepOutcome::Failed
            }
        };
        reconciled(&stalled, outcome.as_str());
        outcome
    }

    async fn ask(&self, stalled: &StalledAttempt, attempt: &mut Attempt<Db>) -> Result<Verdict, String> {
        let Some(reconciler) = self.reconcilers.get(stalled.operation()) else { return Ok(Verdict::Unknown) };
        // An error's `Display` is the user's code too, and may panic.
        let asking = caught(async { reconciler.ask(stalled, attempt).await.map_err(|error| shown(&*error)) });
        let failed = match timeout(self.reconcile_timeout, asking).await {
            Ok(Ok(Ok(verdict))) => return Ok(verdict),
            Ok(Ok(Err(error))) => error,
            Ok(Err(Panicked)) => "the reconciler panicked".to_owned(),
            Err(_) => format!("the reconciler did not return within {:?}", self.reconcile_timeout),
        };
        tracing::error!(
            record = %stalled.id(),
            operation = stalled.operation(),
            error = failed,
            "a reconciler failed"
        );
        Err(failed)
    }

    /// Postpones a record whose verdict could not be written: the reconciler is called again, but not at once.
    async fn not_written(&self, holder: Holder, pause: Duration, unsettled: SettleError) {
        let error = format!("the verdict could not be written: {:?}", unsettled.kind);
        let postponed = self
            .store()
            .step(async move |mut connection, schema| {
                Db::postpone(&mut connection, &schema, &holder, pause, Some(&error), None).await
            })
            .await;
        if let Err(error) = postponed {
            tracing::error!(error = &error as &dyn std::error::Error, "the idempotency store failed");
        }
    }
}

/// The outcome of a sweep for one record.
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
            Self::Released => "released",
            Self::Unknown => "unknown",
            Self::Failed => "failed",
        }
    }
}

/// A task that takes stalled attempts, one by one, until none is due.
struct Worker<Db: Backend> {
    recovery: Recovery<Db>,
    /// The operation it starts with. Workers start with different ones, so that a reconciler that hangs does not stop
    /// all.
    first: usize,
    /// When the sweep started. An attempt that it postponed is not due in it again.
    started_at: Instant,
    stopped: CancellationToken,
    swept: Arc<Mutex<SweepReport>>,
}

impl<Db: Backend> Worker<Db> {
    async fn run(self) -> Result<(), Error> {
        // One record of each operation in turn, so that a slow reconciler does not block the other operations.
        let mut operations: VecDeque<_> = self.recovery.reconcilers.keys().collect();
        operations.rotate_left(self.first % operations.len().max(1));
        while let Some(operation) = operations.pop_front() {
            let Some((taken, attempt)) = self.take(operation).await? else { continue };
            operations.push_back(operation);
            let outcome = self.recovery.decide(taken, attempt).await;
            let mut swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner);
            let count = match outcome {
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
        // Time to call the reconciler and to write the verdict.
        let length = self
            .recovery
            .reconcile_timeout
            .saturating_add(self.recovery.store().timeout)
            .min(lease_duration::LeaseDuration::MAX.length());
        let taking = self.recovery.store().step(async move |mut connection, schema| {
            let take = Take::Due { operation: &operation, sweep_age, max_tries };
            Db::take(&mut connection, &schema, take, attempt, length).await
        });
        Ok(taking.await?.map(|taken| (taken, attempt)))
    }
}

/// The text of an error and its sources, as much of it as is stored.
fn shown(error: &dyn std::error::Error) -> String {
    let sources = std::iter::successors(Some(error), |error| error.source()).take(MAX_SOURCES);
    let text = sources.map(ToString::to_string).collect::<Vec<_>>().join(": ");
    text.chars().filter(|character| *character != '\0').take(MAX_ERROR_CHARS).collect()
}
