//! The application on SQLite: its tables, and the handlers and reconcilers mounted for it.
//! An embedded file needs no set-up, so it is the default.

use std::{str::FromStr as _, time::Duration};

pub(crate) use sqlx::Sqlite as Db;
use sqlx::{
    SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode},
};

use crate::{network::Network, server::ServerError};

#[expect(clippy::duplicate_mod, reason = "one source, a mount for each database")]
#[path = "handlers.rs"]
pub(crate) mod handlers;
#[expect(clippy::duplicate_mod, reason = "one source, a mount for each database")]
#[path = "recovery.rs"]
mod recovery;

/// The application's own tables; idem's are beside them. Real applications have migrations here.
const TABLES: &str = "\
    CREATE TABLE IF NOT EXISTS charges (
        number   INTEGER PRIMARY KEY,
        id       TEXT    NOT NULL UNIQUE,
        account  TEXT    NOT NULL,
        amount   BIGINT  NOT NULL CHECK (amount > 0),
        currency TEXT    NOT NULL,
        source   TEXT    NOT NULL
    );
    CREATE INDEX IF NOT EXISTS charges_account ON charges (account, number)";

pub(crate) async fn open(url: &str, network: Network) -> Result<handlers::App, ServerError> {
    let options = SqliteConnectOptions::from_str(url)?
        .create_if_missing(true)
        // Readers do not wait for the one writer. `synchronous` stays FULL: an answered charge survives a power cut.
        .journal_mode(SqliteJournalMode::Wal)
        // Writers wait for each other this long, shorter than the patience after which idem answers 503.
        .busy_timeout(Duration::from_secs(5));
    handlers::App::open(SqlitePool::connect_with(options).await?, TABLES, network).await
}
