//! The application on SQLite: its connection, its tables, and the handlers mounted for it.
//! An embedded file needs no set-up, so it is the default.

use std::{str::FromStr as _, time::Duration};

pub(crate) use sqlx::{Sqlite as Db, SqliteConnection as Connection};
use sqlx::{
    SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode},
};

use crate::server::ServerError;

#[expect(clippy::duplicate_mod, reason = "one source, a mount for each database")]
#[path = "handlers.rs"]
pub(crate) mod handlers;

/// The application's own tables; idem's are beside them. Real applications have migrations here.
const TABLES: &str = "\
    CREATE TABLE IF NOT EXISTS payments (
        number      INTEGER PRIMARY KEY,
        id          TEXT    NOT NULL UNIQUE DEFAULT ('pay_' || lower(hex(randomblob(12)))),
        account     TEXT    NOT NULL,
        amount      BIGINT  NOT NULL CHECK (amount > 0),
        currency    TEXT    NOT NULL,
        source      TEXT    NOT NULL,
        status      TEXT    NOT NULL DEFAULT 'succeeded',
        description TEXT
    );
    CREATE INDEX IF NOT EXISTS payments_account ON payments (account, number);
    CREATE TABLE IF NOT EXISTS refunds (
        id          TEXT    PRIMARY KEY DEFAULT ('ref_' || lower(hex(randomblob(12)))),
        payment     TEXT    NOT NULL REFERENCES payments (id),
        amount      BIGINT  NOT NULL,
        currency    TEXT    NOT NULL,
        status      TEXT    NOT NULL DEFAULT 'succeeded'
    )";

pub(crate) async fn open(url: &str) -> Result<handlers::App, ServerError> {
    let options = SqliteConnectOptions::from_str(url)?
        .create_if_missing(true)
        // Readers do not wait for the one writer. `synchronous` stays FULL: an answered payment survives a power cut.
        .journal_mode(SqliteJournalMode::Wal)
        // Writers wait for each other this long, shorter than the patience after which idem answers 503.
        .busy_timeout(Duration::from_secs(5));
    handlers::App::open(SqlitePool::connect_with(options).await?, TABLES).await
}
