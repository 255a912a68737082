//! Shutdown: waiting until every attempt has ended, and the error when the limit runs out first.

use std::time::Duration;

use tokio::time::timeout;

use crate::{app::Idempotency, backend::Backend};

/// Why [`Idempotency::drain`] returned before every attempt had ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DrainError {
    /// The limit ran out first.
    #[error("{running} attempts were still running when the limit ran out")]
    StillRunning {
        /// How many attempts were still running.
        running: usize,
    },
}

impl<Db: Backend> Idempotency<Db> {
    /// Waits until every attempt has ended: those whose clients have gone, too, which a server's own graceful shutdown
    /// does not wait for. Call it after the server has stopped.
    ///
    /// `drain` does not wait for a database step that exceeded
    /// [`database_timeout`](crate::Builder::database_timeout): its client has already received a 503. Such a step can still take effect. If it is COMMIT, or the statement that completes an external
    /// attempt, the work may commit after `drain` has returned; the client received `idempotency-outcome-unknown`, and
    /// its retry finds the record or runs. Any other such step commits nothing.
    ///
    /// # Errors
    /// [`DrainError::StillRunning`] if the limit ran out first. Ending the process then rolls those attempts back; those with
    /// external effects it leaves to the recovery.
    pub async fn drain(&self, limit: Duration) -> Result<(), DrainError> {
        self.app.tasks.close();
        let drained = timeout(limit, self.app.tasks.wait()).await;
        drained.map_err(|_| DrainError::StillRunning { running: self.app.tasks.len() })
    }
}
