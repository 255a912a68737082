//! Deleting expired records, as a call and as a background task.
//! A record past its retention answers nothing already; pruning only gives its space back.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{Idempotency, backend::Backend, error::Error};

/// Records a statement deletes at most, so that no lock is held long.
const BATCH: i64 = 1000;

impl<Db: Backend> Idempotency<Db> {
    /// Deletes every expired record and returns how many there were: batches of a thousand, each committed by itself, beside
    /// any number of other pruners. On PostgreSQL it waits for no request and no request for it; on SQLite a batch is one
    /// more writer.
    ///
    /// # Errors
    /// [`Error::Database`]; the batches before it stay deleted.
    pub async fn prune(&self) -> Result<u64, Error> {
        self.prune_until(&CancellationToken::new()).await
    }

    async fn prune_until(&self, stopped: &CancellationToken) -> Result<u64, Error> {
        let mut pruned = 0;
        loop {
            let batch = Db::prune(self.pool(), BATCH).await?;
            pruned += batch;
            if batch < BATCH.unsigned_abs() || stopped.is_cancelled() {
                return Ok(pruned);
            }
        }
    }

    /// Prunes in the background, at once and then `period` after each round, until the [`Pruner`] is stopped or dropped.
    /// A failure is logged, and the next round tries again. An hour is a sensible period.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use = "dropping the pruner stops it: keep it in a variable for as long as the server runs"]
    pub fn pruner(&self, period: Duration) -> Pruner {
        let stop = CancellationToken::new();
        let (idempotency, stopped) = (self.clone(), stop.clone());
        let task = tokio::spawn(async move {
            loop {
                match idempotency.prune_until(&stopped).await {
                    Ok(pruned) => tracing::debug!(pruned, "pruned expired records"),
                    Err(error) => tracing::error!(error = &error as &dyn std::error::Error, "pruning failed"),
                }
                tokio::select! {
                    () = stopped.cancelled() => return,
                    () = tokio::time::sleep(period) => {}
                }
            }
        });
        Pruner { stop, task }
    }
}

/// A background task that prunes. Dropping it stops the task before its next round.
#[derive(Debug)]
pub struct Pruner {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Pruner {
    /// Lets the batch that is under way end, and returns.
    pub async fn stop(mut self) {
        self.stop.cancel();
        // The task only returns; it has nothing to panic with, and nobody aborts it.
        let _ended = (&mut self.task).await;
    }
}

impl Drop for Pruner {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
