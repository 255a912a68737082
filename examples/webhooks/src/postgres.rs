//! The application on PostgreSQL: its connection, its tables, and the handlers mounted for it.

use std::time::Duration;

use sqlx::{Connection as _, postgres::PgPoolOptions};
pub(crate) use sqlx::{PgConnection as Connection, Postgres as Db};

use crate::{Outcome, verify::Secrets};

#[expect(clippy::duplicate_mod, reason = "one source, a mount for each database")]
#[path = "handlers.rs"]
pub(crate) mod handlers;

/// Sent as one message, and so one transaction: the lock keeps a second process out until the tables are there.
const TABLES: &str = "\
    SELECT pg_advisory_xact_lock(hashtext('example-webhooks'));
    CREATE TABLE IF NOT EXISTS accounts (name text PRIMARY KEY, balance bigint NOT NULL)";

pub(crate) async fn open(url: &str, secrets: Secrets) -> Outcome<handlers::App> {
    // A pool goes on trying for half a minute, and then cannot say what was wrong.
    Connection::connect(url).await?.close().await?;
    let pool = PgPoolOptions::new().acquire_timeout(Duration::from_secs(5)).connect(url).await?;
    handlers::App::open(pool, TABLES, secrets).await
}
