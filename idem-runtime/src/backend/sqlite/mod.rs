//! SQLite: the write lock, taken at BEGIN, is the claim. An in-flight duplicate in this process is known from memory before.
//! A savepoint behind the claim undoes the handler's writes, and proves at the end that the transaction is still ours.

use sqlx::{
    AssertSqlSafe, Connection, Database, Executor, SqlSafeStr, SqlStr, Sqlite, SqliteConnection, Transaction,
    error::DatabaseError,
    sqlite::{SqliteError, SqliteRow},
};

use sqlx_core::transaction::TransactionManager;

use super::{
    Backend, Cause, ClaimOutcome, ClaimRequest, Fault, InProgressRecord, OpenClaims, Purpose, ReadFirst, Schema,
    WriteOutcome,
    columns::{column, null},
    error::Error,
    rows::milliseconds,
};
use crate::model::{
    options::Isolation,
    record::{Record, StoredRecord},
};

mod check;
mod leases;
mod migrate;
mod sql;

pub(super) use migrate::MIGRATIONS;

type Manager = <Sqlite as Database>::TransactionManager;

/// Primary result codes (the low byte of an extended one): <https://sqlite.org/rescode.html>.
const SQLITE_ERROR: i32 = 1;
const SQLITE_BUSY: i32 = 5;
const SQLITE_LOCKED: i32 = 6;
const SQLITE_NOMEM: i32 = 7;
const SQLITE_READONLY: i32 = 8;
const SQLITE_INTERRUPT: i32 = 9;
const SQLITE_IOERR: i32 = 10;
const SQLITE_FULL: i32 = 13;
const SQLITE_CANTOPEN: i32 = 14;
const SQLITE_PROTOCOL: i32 = 15;
const SQLITE_CONSTRAINT: i32 = 19;

impl Backend for Sqlite {
    /// The savepoint is the token.
    type Token = ();

    /// Readers do not wait for the writer (in WAL mode), so a retry need not wait for another key's slow handler.
    const READ_FIRST: ReadFirst = ReadFirst::Always;

    /// The statement waits for the writer.
    const OPEN_CLAIMS: OpenClaims = OpenClaims::Seen;

    async fn read(
        connection: &mut SqliteConnection,
        _: &Schema,
        request: &ClaimRequest,
    ) -> Result<Option<ClaimOutcome<()>>, sqlx::Error> {
        look(connection, sql::LOOK, request).await
    }

    fn begin(_: Option<Isolation>, _: Purpose<'_>) -> SqlStr {
        sql::BEGIN.as_str().into_sql_str()
    }

    async fn claim(
        connection: &mut SqliteConnection,
        _: &Schema,
        request: &ClaimRequest,
    ) -> Result<ClaimOutcome<()>, sqlx::Error> {
        Ok(look(connection, sql::LOOK_TO_WRITE, request).await?.unwrap_or(ClaimOutcome::Claimed(())))
    }

    async fn rewind(connection: &mut SqliteConnection) -> Result<WriteOutcome, sqlx::Error> {
        to_savepoint(connection, &sql::REWIND).await
    }

    async fn verify(connection: &mut SqliteConnection) -> Result<WriteOutcome, sqlx::Error> {
        to_savepoint(connection, &sql::VERIFY).await
    }

    async fn record(
        connection: &mut SqliteConnection,
        _: &Schema,
        (): &(),
        request: &ClaimRequest,
        record: Record,
    ) -> Result<WriteOutcome, sqlx::Error> {
        let written = sqlx::query(sql::RECORD.as_str())
            .bind(request.id.as_bytes())
            .bind(request.operation)
            .bind(record.fingerprint)
            .bind(record.format)
            .bind(record.status)
            .bind(record.headers)
            .bind(&record.body[..])
            .bind(request.retention.as_secs())
            .fetch_optional(&mut *connection)
            .await;
        match written {
            Ok(Some(_)) => Ok(WriteOutcome::Written),
            Ok(None) => Ok(WriteOutcome::Lost),
            Err(error) => no_savepoint(error),
        }
    }

    /// A statement that fails aborts nothing: SQLite undoes that statement, or ends the whole transaction.
    async fn is_aborted(_: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
        Ok(false)
    }

    async fn forget_plans(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        connection.clear_cached_statements().await
    }

    /// After some errors SQLite has rolled back by itself, and sqlx still counts the transaction: `discard` corrects that.
    async fn abandon(mut transaction: Transaction<'static, Self>) {
        let rolled_back = Manager::rollback(&mut transaction).await.is_ok();
        if !rolled_back || Manager::get_transaction_depth(&transaction) != 0 {
            Self::discard(transaction).await;
        }
    }

    async fn discard(mut transaction: Transaction<'static, Self>) {
        // sqlx ends transactions by its own count of them, so what it counts is made true: nothing, then that many levels.
        let _nothing_open = transaction.execute("ROLLBACK").await;
        let levels = Manager::get_transaction_depth(&transaction);
        if levels > 0 {
            let _open = transaction.execute("BEGIN").await;
        }
        for level in 1..levels {
            let _open = transaction.execute(AssertSqlSafe(format!("SAVEPOINT _sqlx_savepoint_{level}"))).await;
        }
        for _ in 1..levels {
            let _ended = Manager::rollback(&mut transaction).await;
        }
        if let Err(error) = transaction.rollback().await {
            tracing::error!(error = &error as &dyn std::error::Error, "a connection could not be cleaned");
        }
    }

    fn fault(error: &sqlx::Error) -> Fault {
        match primary(error) {
            Some(SQLITE_CONSTRAINT) => Fault::Aborted,
            // Our statements are constant: an error in one means that the schema is another.
            Some(SQLITE_ERROR) => Fault::Schema,
            _ => Fault::Unavailable,
        }
    }

    fn refusal_to_commit(error: &sqlx::Error) -> Option<Fault> {
        let refused = [SQLITE_BUSY, SQLITE_READONLY, SQLITE_FULL, SQLITE_CONSTRAINT];
        primary(error).filter(|code| refused.contains(code)).map(|_| Self::fault(error))
    }

    fn cause(error: &dyn DatabaseError) -> Cause {
        match error.try_downcast_ref::<SqliteError>() {
            Some(error) if passes(error) => Cause::Passing,
            _ => Cause::Unknown,
        }
    }

    async fn prune(connection: &mut SqliteConnection, _: &Schema, limit: i64) -> Result<u64, sqlx::Error> {
        Ok(sqlx::query(sql::PRUNE).bind(limit).execute(connection).await?.rows_affected())
    }

    async fn migrate(connection: &mut SqliteConnection, _: &Schema) -> Result<(), sqlx::Error> {
        migrate::migrate(connection).await
    }

    /// Not all of these waits obey the busy timeout: a change of the journal mode, for one, fails at once.
    fn is_locked(error: &sqlx::Error) -> bool {
        matches!(primary(error), Some(SQLITE_BUSY | SQLITE_LOCKED))
    }

    async fn check(connection: &mut SqliteConnection, _: &Schema) -> Result<(), Error> {
        check::check(connection).await
    }
}

async fn to_savepoint(connection: &mut SqliteConnection, statement: &'static str) -> Result<WriteOutcome, sqlx::Error> {
    match connection.execute(statement).await {
        Ok(_) => Ok(WriteOutcome::Written),
        Err(error) => no_savepoint(error),
    }
}

/// Our statements are well-formed, and the look has met the table: a plain error says that the savepoint is gone.
fn no_savepoint(error: sqlx::Error) -> Result<WriteOutcome, sqlx::Error> {
    if primary(&error) == Some(SQLITE_ERROR) { Ok(WriteOutcome::TransactionEnded) } else { Err(error) }
}

async fn look(
    connection: &mut SqliteConnection,
    statement: &'static str,
    request: &ClaimRequest,
) -> Result<Option<ClaimOutcome<()>>, sqlx::Error> {
    let row = sqlx::query(statement).bind(request.id.as_bytes()).fetch_optional(connection).await?;
    row.as_ref().map(found).transpose()
}

/// The record that a look found, completed or in progress.
fn found(row: &SqliteRow) -> Result<ClaimOutcome<()>, sqlx::Error> {
    if !column::<_, bool>(row, "expires")? {
        return Err(null("expires_at"));
    }
    let fingerprint = column(row, "fingerprint")?;
    if column(row, "held")? {
        return Ok(ClaimOutcome::InProgress(InProgressRecord {
            fingerprint,
            remaining: milliseconds(column(row, "remaining")?),
        }));
    }
    Ok(ClaimOutcome::Completed(StoredRecord {
        operation: column(row, "operation")?,
        record: Record {
            fingerprint,
            format: column(row, "format")?,
            status: column(row, "status")?,
            headers: column(row, "headers")?,
            body: column::<_, Vec<u8>>(row, "body")?.into(),
        },
    }))
}

/// Whether time or another connection heals what a statement met. After some of these SQLite has rolled back the whole transaction:
/// <https://sqlite.org/lang_transaction.html#response_to_errors_within_a_transaction>.
fn passes(error: &SqliteError) -> bool {
    let passing = [
        SQLITE_BUSY,
        SQLITE_LOCKED,
        SQLITE_NOMEM,
        SQLITE_READONLY,
        SQLITE_INTERRUPT,
        SQLITE_IOERR,
        SQLITE_FULL,
        SQLITE_CANTOPEN,
        SQLITE_PROTOCOL,
    ];
    primary_of(error).is_some_and(|code| passing.contains(&code))
}

fn primary(error: &sqlx::Error) -> Option<i32> {
    primary_of(error.as_database_error()?)
}

fn primary_of(error: &dyn DatabaseError) -> Option<i32> {
    error.code()?.parse().ok().map(|code: i32| code & 0xff)
}
