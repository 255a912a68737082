//! A task in the background that does its round again and again: pruning, recovery.
//! Stopped or dropped, it never breaks off in the middle of a round's step.

use std::{future::Future, time::Duration};

use tokio::{task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;

/// A background task: of [`Idempotency::pruner`](crate::Idempotency::pruner) or
/// [`Recovery::run_every`](crate::Recovery::run_every). Dropping it stops it before its next round.
#[derive(Debug)]
#[must_use = "dropping it stops the task: keep it in a variable for as long as the server runs"]
pub struct BackgroundTask {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl BackgroundTask {
    /// Does a round at once, and then `period` after the end of each. A round is told that it is to end.
    pub(crate) fn every<F>(period: Duration, round: impl Fn(CancellationToken) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send,
    {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            while !stopped.is_cancelled() {
                round(stopped.clone()).await;
                // Stopped or not, the loop asks.
                let _ = timeout(period, stopped.cancelled()).await;
            }
        });
        Self { stop, task }
    }

    /// Lets what is under way end (a batch of pruning, the questions to reconcilers), and returns.
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
