//! Shutdown: waits until every attempt has ended.
//! A server's graceful shutdown does not wait for the attempts of disconnected clients.

use std::time::Duration;

use tokio::time::timeout;

use crate::{app::Idempotency, backend::Backend};

/// Why [`Idempotency::drain`] returned before every attempt had ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DrainError {
    /// The limit expired first.
    #[error("{running} attempts were still running when the limit expired")]
    StillRunning {
        /// How many attempts were still running.
        running: usize,
    },
}

impl<Db: Backend> Idempotency<Db> {
    /// Waits until every attempt has ended, including those of disconnected clients, for which a server's graceful
    /// shutdown does not wait. Call it after the server has stopped.
    ///
    /// `drain` does not wait for a database step that exceeded
    /// [`database_timeout`](crate::Builder::database_timeout): its client has already received a 503. Such a step can
    /// still take effect. If it is COMMIT, or the statement that completes an external attempt, the work may commit
    /// after `drain` has returned; the client received `idempotency-outcome-unknown`, and its retry finds the record or
    /// runs. Any other such step commits nothing.
    ///
    /// # Errors
    /// [`DrainError::StillRunning`] if the limit expires first. If the process then ends, those attempts are rolled
    /// back; those with external effects stay in progress, for the recovery.
    pub async fn drain(&self, limit: Duration) -> Result<(), DrainError> {
        self.app.tasks.close();
        let drained = timeout(limit, self.app.tasks.wait()).await;
        drained.map_err(|_| DrainError::StillRunning { running: self.app.tasks.len() })
    }
}
