//! SQLite: the write lock, taken at BEGIN, is the claim; a twin in this process is known from memory before that.
//! A savepoint behind the claim undoes the handler's writes, and proves at the end that the transaction is still ours.

use sqlx::{
    AssertSqlSafe, Database, Executor, Row, SqlSafeStr, SqlStr, Sqlite, SqliteConnection, SqlitePool, Transaction,
    error::DatabaseError,
    sqlite::{SqliteError, SqliteRow},
};

use sqlx_core::transaction::TransactionManager;

use super::{
    Backend, ClaimOutcome, ClaimRequest, Fault, InProgressRecord, Opening, ReadFirst, Written, expect_version,
    milliseconds,
};
use crate::{
    backend::error::Error,
    model::{options::Isolation, record::Record},
};

mod leases;

type Manager = <Sqlite as Database>::TransactionManager;

const MIGRATIONS: [&str; 2] = [
    include_str!("../../../migrations/sqlite/0001_records.sql"),
    include_str!("../../../migrations/sqlite/0002_leases.sql"),
];

/// How many of the migrations have been made.
const MIGRATED: &str = "\
    SELECT count(*) FROM sqlite_schema \
     WHERE (type = 'table' AND name = 'idem_records') OR (type = 'index' AND name = 'idem_records_in_progress')";

/// The write lock at once: a transaction that reads first and writes later can find that it may not.
const BEGIN: &str = "BEGIN IMMEDIATE; SAVEPOINT idem_claim";

/// The database's clock, in milliseconds since 1970.
macro_rules! now {
    () => {
        "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"
    };
}
use now;

macro_rules! look {
    () => {
        concat!(
            "SELECT fingerprint, format, status, headers, body, attempt IS NOT NULL AS held, lease_until - ",
            now!(),
            " AS remaining FROM idem_records WHERE id = ?1 AND expires_at > ",
            now!()
        )
    };
}

const LOOK: &str = look!();

/// Where nothing can be written, the look fails: it begins with a write, of no row, because BEGIN IMMEDIATE succeeds on
/// a file that is read-only.
const LOOK_TO_WRITE: &str = concat!("DELETE FROM idem_records WHERE false; ", look!());

const REWIND: &str = "ROLLBACK TO idem_claim";
const VERIFY: &str = "RELEASE idem_claim";

/// The savepoint is released here because only its own transaction has it: after the handler's COMMIT it is gone.
/// What was written is read off the returned row, because SQLite counts changes across the two statements.
const RECORD: &str = concat!(
    "\
    RELEASE idem_claim; \
    INSERT INTO idem_records AS r \
        (id, operation, fingerprint, format, status, headers, body, created_at, expires_at) \
    SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, clock.now, clock.now + ?8 * 1000 \
      FROM (SELECT ",
    now!(),
    " AS now) AS clock \
     WHERE true \
    ON CONFLICT (id) DO UPDATE SET \
        operation = excluded.operation, fingerprint = excluded.fingerprint, format = excluded.format, \
        status = excluded.status, headers = excluded.headers, body = excluded.body, \
        created_at = excluded.created_at, expires_at = excluded.expires_at \
     WHERE r.expires_at <= excluded.created_at \
    RETURNING true"
);

const PRUNE: &str = concat!(
    "DELETE FROM idem_records WHERE id IN (SELECT id FROM idem_records WHERE expires_at <= ",
    now!(),
    " ORDER BY expires_at LIMIT ?1)"
);

const HAS_SCHEMA: &str = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'idem_schema'";

const VERSION: &str = "SELECT max(version) FROM idem_schema";

/// The column types that the guarantees rest on: a key compared as bytes, a body stored as bytes.
const SCHEMA_AS_MADE: &str = "\
    SELECT count(*) = 4 FROM pragma_table_info('idem_records') \
     WHERE type = 'BLOB' AND name IN ('id', 'fingerprint', 'headers', 'body')";

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
    const READ_FIRST: ReadFirst = ReadFirst::WhileABodyRuns;

    async fn read(
        connection: &mut SqliteConnection,
        request: &ClaimRequest,
    ) -> Result<Option<ClaimOutcome<()>>, sqlx::Error> {
        look(connection, LOOK, request).await
    }

    fn begin(_: Option<Isolation>, _: Opening<'_>) -> SqlStr {
        BEGIN.into_sql_str()
    }

    async fn claim(connection: &mut SqliteConnection, request: &ClaimRequest) -> Result<ClaimOutcome<()>, sqlx::Error> {
        Ok(look(connection, LOOK_TO_WRITE, request).await?.unwrap_or(ClaimOutcome::Claimed(())))
    }

    async fn rewind(connection: &mut SqliteConnection) -> Result<Written, sqlx::Error> {
        to_savepoint(connection, REWIND).await
    }

    async fn verify(connection: &mut SqliteConnection) -> Result<Written, sqlx::Error> {
        to_savepoint(connection, VERIFY).await
    }

    async fn record(
        connection: &mut SqliteConnection,
        (): &(),
        request: &ClaimRequest,
        record: Record,
    ) -> Result<Written, sqlx::Error> {
        let written = sqlx::query(RECORD)
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
            Ok(Some(_)) => Ok(Written::Yes),
            Ok(None) => Ok(Written::Lost),
            Err(error) => no_savepoint(error),
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

    async fn prune(pool: &SqlitePool, most: i64) -> Result<u64, sqlx::Error> {
        Ok(sqlx::query(PRUNE).bind(most).execute(pool).await?.rows_affected())
    }

    async fn migrate(pool: &SqlitePool) -> Result<(), sqlx::Error> {
        let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await?;
        let made: i64 = sqlx::query_scalar(MIGRATED).fetch_one(&mut *transaction).await?;
        for migration in MIGRATIONS.iter().copied().skip(usize::try_from(made).unwrap_or(0)) {
            transaction.execute(sqlx::raw_sql(migration)).await?;
        }
        transaction.commit().await
    }

    async fn check(pool: &SqlitePool) -> Result<(), Error> {
        let tables: i64 = sqlx::query_scalar(HAS_SCHEMA).fetch_one(pool).await?;
        let version = if tables == 0 { None } else { sqlx::query_scalar(VERSION).fetch_one(pool).await? };
        expect_version(version)?;
        if sqlx::query_scalar(SCHEMA_AS_MADE).fetch_one(pool).await? { Ok(()) } else { Err(Error::SchemaMissing) }
    }
}

async fn to_savepoint(connection: &mut SqliteConnection, statement: &'static str) -> Result<Written, sqlx::Error> {
    match connection.execute(statement).await {
        Ok(_) => Ok(Written::Yes),
        Err(error) => no_savepoint(error),
    }
}

/// Our statements are well-formed, and the look has met the table: a plain error says that the savepoint is gone.
fn no_savepoint(error: sqlx::Error) -> Result<Written, sqlx::Error> {
    if primary(&error) == Some(SQLITE_ERROR) { Ok(Written::Ended) } else { Err(error) }
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
    let fingerprint = row.try_get("fingerprint")?;
    if row.try_get("held")? {
        return Ok(ClaimOutcome::InProgress(InProgressRecord {
            fingerprint,
            remaining: milliseconds(row.try_get("remaining")?),
        }));
    }
    Ok(ClaimOutcome::Completed(Record {
        fingerprint,
        format: row.try_get("format")?,
        status: row.try_get("status")?,
        headers: row.try_get("headers")?,
        body: row.try_get::<Vec<u8>, _>("body")?.into(),
    }))
}

/// Whether time or another connection heals what a statement met. After some of these SQLite has rolled back the whole transaction:
/// <https://sqlite.org/lang_transaction.html#response_to_errors_within_a_transaction>.
pub(super) fn passes(error: &SqliteError) -> bool {
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
