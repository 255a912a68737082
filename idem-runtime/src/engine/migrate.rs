//! Migrations and their repetition while others stand in the way: handlers' open transactions, another process that starts.
//! Between two tries no connection is held, so handlers run.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Store;
use crate::backend::Backend;

/// How long a migration is tried, and the pause between two tries.
const LIMIT: Duration = Duration::from_mins(2);
const PAUSE: Duration = Duration::from_secs(1);

impl<Db: Backend> Store<Db> {
    /// Brings the schema to this build's version.
    pub(crate) async fn migrate(&self) -> Result<(), sqlx::Error> {
        let began = Instant::now();
        loop {
            // Also to connect can meet a lock: the first connection of a pool may change a file's journal mode.
            match self
                .unhurried_step(async move |mut connection, schema| Db::migrate(&mut connection, &schema).await)
                .await
            {
                Err(error) if Db::is_locked(&error) && began.elapsed() < LIMIT => {
                    tracing::info!(error = &error as &dyn std::error::Error, "the migration waits for a lock");
                }
                migrated => return migrated,
            }
            sleep(PAUSE).await;
        }
    }
}
