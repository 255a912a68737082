//! Deletes expired records, as a call and as a background task.
//! An expired record is not replayed anyway; pruning only frees its space.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::{
    app::{Idempotency, background::BackgroundTask},
    backend::{Backend, error::Error},
    model::limits::longer_than_zero,
};

/// The most records that one statement deletes, so that no lock is held long.
const BATCH: i64 = 1000;

impl<Db: Backend> Idempotency<Db> {
    /// Deletes all expired records and returns their number. It commits after each batch of a thousand. Several pruners
    /// may run at once. On PostgreSQL, pruning and requests do not wait for each other; on SQLite a batch is one more
    /// writer.
    ///
    /// # Errors
    /// [`Error::Database`]; earlier batches stay deleted.
    pub async fn prune(&self) -> Result<u64, Error> {
        self.prune_until(&CancellationToken::new()).await
    }

    async fn prune_until(&self, stopped: &CancellationToken) -> Result<u64, Error> {
        let mut pruned = 0;
        loop {
            let store = &self.app.engine.store;
            let batch = store
                .unhurried_step(async move |mut connection, schema| Db::prune(&mut connection, &schema, BATCH).await)
                .await?;
            pruned += batch;
            if batch < BATCH.unsigned_abs() || stopped.is_cancelled() {
                return Ok(pruned);
            }
        }
    }

    /// Prunes in the background, at once and then `period` after each round, until the task is stopped or dropped.
    /// A failure is logged, and the next round tries again. One hour is a sensible period.
    ///
    /// # Panics
    /// If the period is zero, and outside a tokio runtime.
    #[track_caller]
    pub fn pruner(&self, period: Duration) -> BackgroundTask {
        let period = longer_than_zero("pruner", period);
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
