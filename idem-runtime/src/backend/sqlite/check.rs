//! SQLite: whether a service can work with the table and the file as they are.
//! No lock is waited for: a check runs beside the handlers of other processes.

use sqlx::{AssertSqlSafe, Executor, SqliteConnection};

use super::{SQLITE_BUSY, SQLITE_ERROR, SQLITE_LOCKED, SQLITE_READONLY, primary, sql};
use crate::backend::{error::Error, expect_version};

pub(super) async fn check(connection: &mut SqliteConnection) -> Result<(), Error> {
    schema(connection).await?;
    writable(connection).await?;
    warn_of_settings(connection).await
}

async fn schema(connection: &mut SqliteConnection) -> Result<(), Error> {
    let tables: i64 = sqlx::query_scalar(sql::HAS_SCHEMA).fetch_one(&mut *connection).await?;
    let version = if tables == 0 { None } else { sqlx::query_scalar(sql::VERSION).fetch_one(&mut *connection).await? };
    expect_version(version)?;
    if !sqlx::query_scalar(sql::SCHEMA_AS_MADE).fetch_one(&mut *connection).await? {
        return Err(Error::SchemaMissing);
    }
    // The columns are there: what does not compile is the clause ON CONFLICT, which no unique index fits.
    match connection.execute(sql::EXPLAIN_CONFLICT).await {
        Err(error) if primary(&error) == Some(SQLITE_ERROR) => Err(Error::IdNotUnique),
        explained => Ok(explained.map(drop)?),
    }
}

/// Writes no row. A file that cannot be written refuses that before it looks at locks; one that another connection writes is
/// writable.
async fn writable(connection: &mut SqliteConnection) -> Result<(), Error> {
    let patience: i64 = sqlx::query_scalar(sql::BUSY_TIMEOUT).fetch_one(&mut *connection).await?;
    connection.execute(sql::NO_BUSY_TIMEOUT).await?;
    let written = connection.execute(sql::WRITE_NOTHING).await;
    connection.execute(AssertSqlSafe(format!("{} = {patience}", sql::BUSY_TIMEOUT))).await?;
    match written {
        Err(error) => match primary(&error) {
            Some(SQLITE_BUSY | SQLITE_LOCKED) => Ok(()),
            Some(SQLITE_READONLY) => Err(Error::ReadOnly),
            _ => Err(error.into()),
        },
        Ok(_) => Ok(()),
    }
}

/// SQLite changes the setting only outside transactions, and it is the application's: no commit of idem's can do better.
async fn warn_of_settings(connection: &mut SqliteConnection) -> Result<(), Error> {
    let synchronous: i64 = sqlx::query_scalar(sql::SYNCHRONOUS).fetch_one(&mut *connection).await?;
    let journal: String = sqlx::query_scalar(sql::JOURNAL_MODE).fetch_one(connection).await?;
    // OFF, or NORMAL with a write-ahead log, which is then written to the disk at checkpoints only.
    if synchronous == 0 || (synchronous == 1 && journal == "wal") {
        tracing::warn!(
            synchronous,
            journal,
            "a crash of the host can lose what is committed, external claims and consumed messages too: set \
             `synchronous` to FULL"
        );
    }
    Ok(())
}
