//! The application on SQLite: its connection, its tables, and the handlers mounted for it.

use std::{str::FromStr as _, time::Duration};

pub(crate) use sqlx::{Sqlite as Db, SqliteConnection as Connection};
use sqlx::{
    SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode},
};

use crate::{Outcome, verify::Secrets};

#[expect(clippy::duplicate_mod, reason = "one source, a mount for each database")]
#[path = "handlers.rs"]
pub(crate) mod handlers;

const TABLES: &str = "CREATE TABLE IF NOT EXISTS accounts (name TEXT PRIMARY KEY, balance BIGINT NOT NULL)";

pub(crate) async fn open(url: &str, secrets: Secrets) -> Outcome<handlers::App> {
    let options = SqliteConnectOptions::from_str(url)?
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .busy_timeout(Duration::from_secs(5));
    handlers::App::open(SqlitePool::connect_with(options).await?, TABLES, secrets).await
}
