//! The queue and its consumer on SQLite, whose one writer makes `SKIP LOCKED` needless.
//! An embedded file needs no set-up, so it is the default.

use std::{str::FromStr as _, time::Duration};

pub(crate) use sqlx::{Sqlite as Db, SqliteConnection as Connection};
use sqlx::{
    SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions},
};

#[expect(clippy::duplicate_mod, reason = "one source, a mount for each database")]
#[path = "consumer.rs"]
pub(crate) mod consumer;
#[expect(clippy::duplicate_mod, reason = "one source, a mount for each database")]
#[path = "mount.rs"]
pub(crate) mod mount;
#[expect(clippy::duplicate_mod, reason = "one source, a mount for each database")]
#[path = "queue.rs"]
pub(crate) mod queue;

const TABLES: &str = "\
    CREATE TABLE IF NOT EXISTS jobs (
        number       INTEGER PRIMARY KEY,
        queue        TEXT    NOT NULL,
        message      TEXT    NOT NULL,
        body         TEXT    NOT NULL,
        state        TEXT    NOT NULL DEFAULT 'waiting',
        leased_until BIGINT  NOT NULL DEFAULT 0,
        deliveries   BIGINT  NOT NULL DEFAULT 0
    );
    CREATE INDEX IF NOT EXISTS jobs_waiting ON jobs (queue, leased_until) WHERE state = 'waiting';
    CREATE TABLE IF NOT EXISTS shipments (
        number   INTEGER PRIMARY KEY,
        queue    TEXT    NOT NULL,
        message  TEXT    NOT NULL,
        quantity BIGINT  NOT NULL
    );
    CREATE TABLE IF NOT EXISTS stock (
        queue     TEXT    PRIMARY KEY,
        remaining BIGINT  NOT NULL
    )";

/// A lease of a second: here, that is also how long a crash goes unnoticed. Times are milliseconds since 1970.
const TAKE: &str = "\
    UPDATE jobs SET leased_until = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + 1000, \
                    deliveries = deliveries + 1 \
     WHERE number = (SELECT number FROM jobs \
                      WHERE queue = $1 AND state = 'waiting' \
                        AND leased_until <= CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) \
                      ORDER BY leased_until, number LIMIT 1) \
    RETURNING number, message, body, deliveries";

const GIVE_BACK: &str =
    "UPDATE jobs SET leased_until = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) WHERE number = $1";

async fn pool(url: &str) -> Result<SqlitePool, sqlx::Error> {
    let options = SqliteConnectOptions::from_str(url)?
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .busy_timeout(Duration::from_secs(5));
    SqlitePoolOptions::new().max_connections(2).connect_with(options).await
}
