//! Migrations and their repetition while handlers' open transactions stand in the way.
//! Between two tries no connection is held, so handlers run.

use std::time::Duration;

use tokio::time::sleep;

use super::Store;
use crate::backend::{Backend, Migration};

/// How often a migration is tried, and the pause between two tries.
const MAX_TRIES: u32 = 60;
const PAUSE: Duration = Duration::from_secs(1);

impl<Db: Backend> Store<Db> {
    /// Brings the schema to this build's version.
    pub(crate) async fn migrate(&self) -> Result<(), sqlx::Error> {
        let mut tries = 1;
        loop {
            let migrated = self.unhurried_step(async move |mut connection| Db::migrate(&mut connection).await).await?;
            match migrated {
                Migration::Done => return Ok(()),
                Migration::Busy(error) if tries == MAX_TRIES => return Err(error),
                Migration::Busy(_) => {}
            }
            tries += 1;
            sleep(PAUSE).await;
        }
    }
}
