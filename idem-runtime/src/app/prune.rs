//! Deleting expired records, as a call and as a background task.
//! A record past its retention answers nothing already; pruning only gives its space back.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::{
    app::{Idempotency, background::BackgroundTask},
    backend::{Backend, error::Error},
};

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
            let store = &self.app.engine.store;
            let batch =
                store.unhurried_step(async move |mut connection| Db::prune(&mut connection, BATCH).await).await?;
            pruned += batch;
            if batch < BATCH.unsigned_abs() || stopped.is_cancelled() {
                return Ok(pruned);
            }
        }
    }

    /// Prunes in the background, at once and then `period` after each round, until the task is stopped or dropped.
    /// A failure is logged, and the next round tries again. An hour is a sensible period.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn pruner(&self, period: Duration) -> BackgroundTask {
        let idempotency = self.clone();
        BackgroundTask::every(period, move |stopped| {
            let idempotency = idempotency.clone();
            async move {
                match idempotency.prune_until(&stopped).await {
                    Ok(pruned) => tracing::debug!(pruned, "pruned expired records"),
                    Err(error) => tracing::error!(error = &error as &dyn std::error::Error, "pruning failed"),
                }
            }
        })
    }
}
