//! A new SQLite file, and a lock that another process holds while this one starts. The lock is held until the start has met it.
//! Whichever lock it is, the start waits for it and succeeds.

use std::time::Duration;

use idem_runtime::Idempotency;
use idem_tests::{
    databases::{Sqlite, sqlite},
    log_capture::{heard, listen},
    soon,
};
use sqlx::{
    ConnectOptions, Connection, Executor,
    sqlite::{SqliteJournalMode, SqlitePoolOptions},
};

const WAITS: &str = "the migration waits for a lock";

/// Starts while another connection, in this journal mode, is in a transaction.
async fn start_beside(journal: SqliteJournalMode, begin: &'static str) {
    listen();
    let database: Sqlite = sqlite();
    let mut other = database.options().journal_mode(journal).connect().await.unwrap();
    other.execute(begin).await.unwrap();
    // As an application has it: the first connection is made by the first who needs one, here in WAL mode.
    let options = database.options().busy_timeout(Duration::ZERO);
    let idempotency = Idempotency::builder(SqlitePoolOptions::new().connect_lazy_with(options)).build();
    let starting = tokio::spawn(async move { idempotency.migrate().await });
    let met = async {
        while !heard().contains(WAITS) {
            assert!(!starting.is_finished(), "{journal:?}, {begin}: the start gave up");
            tokio::task::yield_now().await;
        }
    };
    soon("the start meets the lock", met).await;
    other.execute("COMMIT").await.unwrap();
    soon("the start", starting).await.unwrap().unwrap();
    other.close().await.unwrap();
}

#[tokio::test]
async fn a_start_waits_for_another_process_that_migrates() {
    start_beside(SqliteJournalMode::Wal, "BEGIN IMMEDIATE").await;
}

#[tokio::test]
async fn a_start_that_changes_the_journal_mode_waits_for_a_writer() {
    start_beside(SqliteJournalMode::Delete, "BEGIN IMMEDIATE").await;
}

#[tokio::test]
async fn a_start_that_changes_the_journal_mode_waits_for_an_exclusive_lock() {
    start_beside(SqliteJournalMode::Delete, "BEGIN EXCLUSIVE").await;
}
