//! A background task that repeats a round: pruning or recovery.
//! Stopping or dropping it never interrupts a step of a round.

use std::{future::Future, time::Duration};

use tokio::{task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;

/// A background task, from [`Idempotency::pruner`](crate::Idempotency::pruner) or
/// [`Recovery::run_every`](crate::recovery::Recovery::run_every). Dropping it stops it before its next round.
#[derive(Debug)]
#[must_use = "dropping it stops the task: keep it in a variable for as long as the server runs"]
pub struct BackgroundTask {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl BackgroundTask {
    /// Runs a round at once, and the next one `period` after the end of each. A round gets the token that asks it to
    /// stop.
    pub(crate) fn every<F>(period: Duration, round: impl Fn(CancellationToken) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send,
    {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            while !stopped.is_cancelled() {
                round(stopped.clone()).await;
                // The loop's condition checks whether it was stopped.
                let _ = timeout(period, stopped.cancelled()).await;
            }
        });
        Self { stop, task }
    }

    /// Stops the task, and waits for the step in progress: a batch of pruning, or the reconcilers that are running.
    pub async fn stop(mut self) {
        self.stop.cancel();
        if let Err(error) = (&mut self.task).await {
            tracing::error!(error = &error as &dyn std::error::Error, "a background task failed");
        }
    }
}

impl Drop for BackgroundTask {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
