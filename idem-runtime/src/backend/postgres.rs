//! PostgreSQL: the key is claimed by an advisory transaction lock, the record written by one insert at the end.
//! Nothing is kept in a session, so a pooler in transaction mode may stand in between.

use std::borrow::Cow;

use sqlx::{
    AssertSqlSafe, Executor, PgConnection, PgPool, Postgres, Row, SqlSafeStr, SqlStr, Transaction,
    error::DatabaseError,
    postgres::{PgDatabaseError, PgRow, PgSeverity},
};

use super::{Backend, Fault, Look, Twin, Wanted, Written, asks_for_another_run, expect_version};
use crate::{digest::Digest, error::Error, policy::Isolation, record::Record};

const MIGRATIONS: [&str; 1] = [include_str!("../../migrations/postgres/0001_records.sql")];

/// Serializes migrations of several processes: the number is "idem" in ASCII.
const MIGRATION_LOCK: &str = "SELECT pg_advisory_xact_lock(1768187245)";

const SAVEPOINT: &str = "SAVEPOINT idem_claim";

/// The transaction identifier names the claim's transaction at its end; a replay needs none and is not given one.
const LOOK: &str = "\
    SELECT r.fingerprint, r.format, r.status, r.headers, r.body, \
           CASE WHEN r.id IS NULL AND current_setting('idem.key_lock') = 'true' \
                 AND current_setting('transaction_read_only') = 'off' \
                THEN pg_current_xact_id()::text END AS transaction_id, \
           current_setting('transaction_isolation') <> 'read committed' AS strict, \
           current_setting('transaction_read_only') = 'on' AS read_only, \
           has_table_privilege('idem_records'::regclass, 'INSERT') \
               AND has_table_privilege('idem_records'::regclass, 'UPDATE') AS permitted \
      FROM (VALUES (1)) AS always \
      LEFT JOIN idem_records AS r ON r.id = $1 AND r.expires_at > clock_timestamp()";

/// The snapshot of a strict isolation level is older than the lock, and hides a record that was committed in between.
/// Writing where it would stand turns that into a serialization failure, before the body.
const REACH_PAST_SNAPSHOT: &str = "\
    INSERT INTO idem_records (id, operation, fingerprint, format, status, headers, body, created_at, expires_at) \
    VALUES ($1, '', '', 0, 0, '', '', '-infinity', '-infinity') \
    ON CONFLICT (id) DO UPDATE SET expires_at = '-infinity'";

/// Whether the holder of the key lock (`$1`) has the request lock (`$2`) too; no row if nobody holds the key any more.
/// One scan of `pg_locks`, because two would not be of one instant.
const HOLDER: &str = "\
    SELECT bool_or(l.number = $2) \
      FROM (SELECT pid, mode, (classid::bigint << 32) | objid::bigint AS number \
              FROM pg_locks \
             WHERE locktype = 'advisory' AND granted AND objsubid = 1 \
               AND database = (SELECT oid FROM pg_database WHERE datname = current_database())) AS l \
     WHERE l.number IN ($1, $2) \
     GROUP BY l.pid \
    HAVING bool_or(l.number = $1 AND l.mode = 'ExclusiveLock')";

const REWIND: &str = "ROLLBACK TO SAVEPOINT idem_claim";
const VERIFY: &str = "RELEASE SAVEPOINT idem_claim";

/// Inserts, or replaces an expired record; writes nothing if the transaction is not the claim's (`$9`).
const RECORD: &str = "\
    INSERT INTO idem_records AS r \
        (id, operation, fingerprint, format, status, headers, body, created_at, expires_at) \
    SELECT $1, $2, $3, $4, $5, $6, $7, clock_timestamp(), clock_timestamp() + make_interval(secs => $8) \
     WHERE pg_current_xact_id()::text = $9 \
    ON CONFLICT (id) DO UPDATE SET \
        operation = excluded.operation, fingerprint = excluded.fingerprint, format = excluded.format, \
        status = excluded.status, headers = excluded.headers, body = excluded.body, \
        created_at = excluded.created_at, expires_at = excluded.expires_at \
     WHERE r.expires_at <= clock_timestamp()";

const SAME_TRANSACTION: &str = "SELECT pg_current_xact_id_if_assigned()::text IS NOT DISTINCT FROM $1";

/// Ends our own session on the server, so that the pool finds it dead and does not lend it again.
const TERMINATE: &str = "SELECT pg_terminate_backend(pg_backend_pid())";

/// Rows that another pruner or a new record has in hand are left to it.
const PRUNE: &str = "\
    DELETE FROM idem_records WHERE id = ANY (ARRAY( \
        SELECT id FROM idem_records WHERE expires_at <= clock_timestamp() \
         ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED))";

const VERSION: &str = "SELECT max(version) FROM idem_schema";

/// The column types that the guarantees rest on: a key compared as bytes, a body stored as bytes.
const SCHEMA_AS_MADE: &str = "\
    SELECT count(*) = 4 FROM pg_attribute \
     WHERE attrelid = to_regclass('idem_records') AND atttypid = 'bytea'::regtype \
       AND attname IN ('id', 'fingerprint', 'headers', 'body')";

/// The transaction's identifier, as `pg_current_xact_id` gave it to the claim.
#[derive(Debug)]
pub struct TransactionId(String);

impl Backend for Postgres {
    type Token = TransactionId;

    /// What BEGIN is sent with, in one message, which costs no round trip of its own. Only the simple protocol carries more
    /// than one statement, and it binds nothing: what is formatted in are the two locks, which are integers.
    ///
    /// Every attempt holds both locks until its transaction ends. The request lock is shared and taken first, so whoever
    /// finds the key lock taken can read in `pg_locks` which request its holder runs. The answer of the key lock waits in a
    /// transaction-local setting for `LOOK`, which must be a statement of its own: its snapshot is then younger than the lock,
    /// and cannot miss a record that was committed just before the lock was free.
    ///
    /// The savepoint comes after the locks, because rolling back to it must not give them up.
    fn begin(isolation: Option<Isolation>, wanted: Option<&Wanted>) -> SqlStr {
        let begin = match isolation {
            None => "BEGIN",
            Some(Isolation::ReadCommitted) => "BEGIN ISOLATION LEVEL READ COMMITTED",
            Some(Isolation::RepeatableRead) => "BEGIN ISOLATION LEVEL REPEATABLE READ",
            Some(Isolation::Serializable) => "BEGIN ISOLATION LEVEL SERIALIZABLE",
        };
        let Some(wanted) = wanted else {
            return AssertSqlSafe(format!("{begin}; {SAVEPOINT}")).into_sql_str();
        };
        let Locks { key, request } = Locks::of(wanted);
        AssertSqlSafe(format!(
            "{begin}; SELECT pg_advisory_xact_lock_shared({request}), \
             set_config('idem.key_lock', pg_try_advisory_xact_lock({key})::text, true); {SAVEPOINT}"
        ))
        .into_sql_str()
    }

    async fn claim(connection: &mut PgConnection, wanted: &Wanted) -> Result<Look<TransactionId>, sqlx::Error> {
        let row = sqlx::query(LOOK).bind(wanted.id.as_bytes()).fetch_one(&mut *connection).await?;
        if let Some(fingerprint) = row.try_get("fingerprint")? {
            return completed(&row, fingerprint);
        }
        if row.try_get("read_only")? {
            return Ok(Look::ReadOnly);
        }
        if !row.try_get::<bool, _>("permitted")? {
            return Ok(Look::NotPermitted);
        }
        let Some(transaction) = row.try_get("transaction_id")? else {
            return holder(connection, &Locks::of(wanted)).await;
        };
        if row.try_get("strict")? {
            sqlx::query(REACH_PAST_SNAPSHOT).bind(wanted.id.as_bytes()).execute(connection).await?;
        }
        Ok(Look::Claimed(TransactionId(transaction)))
    }

    async fn rewind(connection: &mut PgConnection) -> Result<Written, sqlx::Error> {
        to_savepoint(connection, REWIND).await
    }

    async fn verify(connection: &mut PgConnection) -> Result<Written, sqlx::Error> {
        to_savepoint(connection, VERIFY).await
    }

    async fn record(
        connection: &mut PgConnection,
        token: &TransactionId,
        wanted: &Wanted,
        record: Record,
    ) -> Result<Written, sqlx::Error> {
        let written = sqlx::query(RECORD)
            .bind(wanted.id.as_bytes())
            .bind(wanted.operation)
            .bind(record.fingerprint)
            .bind(record.format)
            .bind(record.status)
            .bind(record.headers)
            .bind(&record.body[..])
            .bind(f64::from(wanted.retention.as_secs()))
            .bind(&token.0)
            .execute(&mut *connection)
            .await?;
        if written.rows_affected() == 1 {
            return Ok(Written::Yes);
        }
        let same = sqlx::query_scalar(SAME_TRANSACTION).bind(&token.0).fetch_one(connection).await?;
        Ok(if same { Written::Lost } else { Written::Ended })
    }

    async fn discard(mut transaction: Transaction<'static, Self>) {
        // The answer is the session's end, which is an error; either way the connection is lent to nobody again.
        let _ended = transaction.execute(TERMINATE).await;
    }

    fn fault(error: &sqlx::Error) -> Fault {
        let Some(database) = error.as_database_error() else { return Fault::Unavailable };
        match database.code().as_deref() {
            _ if asks_for_another_run(database) => Fault::Transient,
            // in failed transaction: a statement of the handler failed, and nothing after it counts
            Some("25P02") => Fault::Aborted,
            // undefined function, table, column; insufficient privilege; invalid schema
            Some("42883" | "42P01" | "42703" | "42501" | "3F000") => Fault::Schema,
            _ => Fault::Unavailable,
        }
    }

    fn refusal_to_commit(error: &sqlx::Error) -> Option<Fault> {
        let database = error.as_database_error()?.try_downcast_ref::<PgDatabaseError>()?;
        // Until the commit is durable PostgreSQL reports failures as ERROR, and after that only as PANIC; a FATAL tells
        // of the session's end and not of the transaction's. 40003 is "statement completion unknown".
        if !matches!(database.severity(), PgSeverity::Error) || database.code() == "40003" {
            return None;
        }
        Some(match database.code().get(..2) {
            _ if asks_for_another_run(database) => Fault::Transient,
            // insufficient resources, object in use, operator intervention, system error
            Some("53" | "55" | "57" | "58") => Fault::Unavailable,
            // A deferred constraint or trigger of the application.
            _ => Fault::Aborted,
        })
    }

    async fn prune(pool: &PgPool, most: i64) -> Result<u64, sqlx::Error> {
        Ok(sqlx::query(PRUNE).bind(most).execute(pool).await?.rows_affected())
    }

    async fn migrate(pool: &PgPool) -> Result<(), sqlx::Error> {
        let mut transaction = pool.begin().await?;
        transaction.execute(MIGRATION_LOCK).await?;
        for migration in MIGRATIONS {
            transaction.execute(sqlx::raw_sql(migration)).await?;
        }
        transaction.commit().await
    }

    async fn check(pool: &PgPool) -> Result<(), Error> {
        let version = match sqlx::query_scalar(VERSION).fetch_one(pool).await {
            Err(error) if code(&error).as_deref() == Some("42P01") => None,
            other => other?,
        };
        expect_version(version)?;
        if sqlx::query_scalar(SCHEMA_AS_MADE).fetch_one(pool).await? { Ok(()) } else { Err(Error::SchemaMissing) }
    }
}

async fn to_savepoint(connection: &mut PgConnection, statement: &'static str) -> Result<Written, sqlx::Error> {
    match connection.execute(statement).await {
        Ok(_) => Ok(Written::Yes),
        // no_active_sql_transaction, invalid_savepoint_specification: the savepoint went with its transaction.
        Err(error) if matches!(code(&error).as_deref(), Some("25P01" | "3B001")) => Ok(Written::Ended),
        Err(error) => Err(error),
    }
}

fn completed(row: &PgRow, fingerprint: Vec<u8>) -> Result<Look<TransactionId>, sqlx::Error> {
    Ok(Look::Completed(Record {
        fingerprint,
        format: row.try_get("format")?,
        status: row.try_get("status")?,
        headers: row.try_get("headers")?,
        body: row.try_get::<Vec<u8>, _>("body")?.into(),
    }))
}

async fn holder(connection: &mut PgConnection, locks: &Locks) -> Result<Look<TransactionId>, sqlx::Error> {
    let holder = sqlx::query_scalar(HOLDER).bind(locks.key).bind(locks.request).fetch_optional(connection).await?;
    Ok(match holder {
        Some(true) => Look::Running(Twin::Same),
        Some(false) => Look::Running(Twin::Other),
        None => Look::Nothing,
    })
}

/// The advisory locks of an attempt.
struct Locks {
    key: i64,
    request: i64,
}

impl Locks {
    fn of(wanted: &Wanted) -> Self {
        let request = Digest::of("request", [wanted.id.as_bytes(), &wanted.fingerprint.to_bytes()]);
        Self { key: number(&wanted.id), request: number(&request) }
    }
}

/// The advisory lock of a digest: its first 64 bits. Of two keys that run at one moment, one pair in 2^64 shares it.
fn number(digest: &Digest) -> i64 {
    digest.as_bytes().first_chunk().map_or(0, |start| i64::from_be_bytes(*start))
}

/// The SQLSTATE of a database error.
fn code(error: &sqlx::Error) -> Option<Cow<'_, str>> {
    error.as_database_error().and_then(DatabaseError::code)
}
