//! PostgreSQL: the key is claimed by an advisory transaction lock, the record written by one insert at the end.
//! Nothing is kept in a session, so a pooler in transaction mode may stand in between.

use std::{borrow::Cow, time::Duration};

use sqlx::{
    AssertSqlSafe, Executor, PgConnection, PgPool, Postgres, Row, SqlSafeStr, SqlStr, Transaction,
    error::DatabaseError,
    postgres::{PgDatabaseError, PgRow, PgSeverity},
};
use tokio::time::sleep;

use super::{
    Backend, ClaimOutcome, ClaimRequest, Conflict, Duplicate, Fault, InProgressRecord, Opening, ReadFirst, Written,
    cause::asks_for_another_run, expect_version, milliseconds,
};
use crate::{
    backend::error::Error,
    model::{digest::Digest, fingerprint::Fingerprint, options::Isolation, record::Record},
};

mod leases;

const MIGRATIONS: [&str; 2] = [
    include_str!("../../../migrations/postgres/0001_records.sql"),
    include_str!("../../../migrations/postgres/0002_leases.sql"),
];

/// How many of the migrations have been made. None is made again: even where it changes nothing, it waits for every open
/// transaction of every handler, and new ones wait behind it.
const MIGRATED: &str = "\
    SELECT CASE WHEN to_regclass('idem_schema') IS NULL OR to_regclass('idem_records') IS NULL THEN 0 \
                WHEN to_regclass('idem_records_in_progress') IS NULL THEN 1 \
                ELSE 2 END";

/// Serializes migrations of several processes: the number is "idem" in ASCII.
const MIGRATION_LOCK: &str = "SELECT pg_advisory_xact_lock(1768187245)";

/// How long a migration waits for the open transactions of handlers, behind which all new ones wait for it.
const MIGRATION_LOCK_TIMEOUT: &str = "SET LOCAL lock_timeout = '1s'";

/// How often it is tried, and the time in between, in which handlers run.
const MAX_MIGRATIONS: u32 = 60;
const BETWEEN_MIGRATIONS: Duration = Duration::from_secs(1);

/// A statement of its own after the locks: its snapshot is younger than they are, and cannot miss a record that was
/// committed just before the key's lock was free.
const LOOK: &str = "\
    SELECT r.fingerprint, r.format, r.status, r.headers, r.body, r.attempt IS NOT NULL AS held, \
           (extract(epoch FROM r.lease_until - clock_timestamp()) * 1000)::bigint AS remaining, \
           pg_current_xact_id_if_assigned()::text || ' ' || 'idem_records'::regclass::oid::text AS token, \
           current_setting('transaction_read_only') = 'on' AS read_only, \
           current_setting('transaction_isolation') <> 'read committed' AS strict, \
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

/// Whether the holder of the key lock (`$1`) has one of the request locks (`$2`) too; no row if nobody holds the key.
/// One scan of `pg_locks`, because two would not be of one instant.
const HOLDER: &str = "\
    SELECT bool_or(l.number = ANY ($2)) \
      FROM (SELECT pid, mode, (classid::bigint << 32) | objid::bigint AS number \
              FROM pg_locks \
             WHERE locktype = 'advisory' AND granted AND objsubid = 1 \
               AND database = (SELECT oid FROM pg_database WHERE datname = current_database())) AS l \
     WHERE l.number = $1 OR l.number = ANY ($2) \
     GROUP BY l.pid \
    HAVING bool_or(l.number = $1 AND l.mode = 'ExclusiveLock')";

const REWIND: &str = "ROLLBACK TO SAVEPOINT idem_claim";
const VERIFY: &str = "RELEASE SAVEPOINT idem_claim";

/// Inserts, or replaces an expired record; writes nothing if the transaction or the table is not the claim's (`$9`): the
/// handler may have ended the one, or changed the `search_path` that names the other.
const RECORD: &str = "\
    INSERT INTO idem_records AS r \
        (id, operation, fingerprint, format, status, headers, body, created_at, expires_at) \
    SELECT $1, $2, $3, $4, $5, $6, $7, clock_timestamp(), clock_timestamp() + make_interval(secs => $8) \
     WHERE pg_current_xact_id()::text || ' ' || 'idem_records'::regclass::oid::text = $9 \
    ON CONFLICT (id) DO UPDATE SET \
        operation = excluded.operation, fingerprint = excluded.fingerprint, format = excluded.format, \
        status = excluded.status, headers = excluded.headers, body = excluded.body, \
        created_at = excluded.created_at, expires_at = excluded.expires_at \
     WHERE r.expires_at <= clock_timestamp()";

const SAME_TRANSACTION: &str = "\
    SELECT pg_current_xact_id_if_assigned()::text || ' ' || 'idem_records'::regclass::oid::text IS NOT DISTINCT FROM $1";

/// Ends our own session on the server, so that the pool finds it dead and does not lend it again. Rolls back first, since
/// an aborted transaction would refuse the rest.
const TERMINATE: &str = "ROLLBACK; SELECT pg_terminate_backend(pg_backend_pid())";

/// Rows that another pruner or a new record has in hand are left to it. The statement's own time, unlike the clock's, is one for
/// all rows, so the index gives the expired ones and nothing else is looked at.
const PRUNE: &str = "\
    DELETE FROM idem_records WHERE id = ANY (ARRAY( \
        SELECT id FROM idem_records WHERE expires_at <= statement_timestamp() \
         ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED))";

const VERSION: &str = "SELECT max(version) FROM idem_schema";

/// The column types that the guarantees rest on: a key compared as bytes, a body stored as bytes.
const SCHEMA_AS_MADE: &str = "\
    SELECT count(*) = 4 FROM pg_attribute \
     WHERE attrelid = to_regclass('idem_records') AND atttypid = 'bytea'::regtype \
       AND attname IN ('id', 'fingerprint', 'headers', 'body')";

/// The transaction's identifier and the table's, as the claim found them.
#[derive(Debug)]
pub struct Token(String);

impl Backend for Postgres {
    type Token = Token;

    const READ_FIRST: ReadFirst = ReadFirst::Never;

    async fn read(
        connection: &mut PgConnection,
        request: &ClaimRequest,
    ) -> Result<Option<ClaimOutcome<Token>>, sqlx::Error> {
        let row = sqlx::query(LOOK).bind(request.id.as_bytes()).fetch_one(connection).await?;
        found(&row)
    }

    fn begin(isolation: Option<Isolation>, opening: Opening<'_>) -> SqlStr {
        let before = match opening {
            Opening::Claim(request) => Locks::of(request).take(),
            Opening::Complete(holder) => leases::mark(holder),
            Opening::WithoutKey => String::new(),
        };
        AssertSqlSafe(format!("{}{before}BEGIN; SAVEPOINT idem_claim", level(isolation))).into_sql_str()
    }

    async fn claim(connection: &mut PgConnection, request: &ClaimRequest) -> Result<ClaimOutcome<Token>, sqlx::Error> {
        let row = sqlx::query(LOOK).bind(request.id.as_bytes()).fetch_one(&mut *connection).await?;
        if let Some(found) = found(&row)? {
            return Ok(found);
        }
        if row.try_get("read_only")? {
            return Ok(ClaimOutcome::ReadOnly);
        }
        if !row.try_get::<bool, _>("permitted")? {
            return Ok(ClaimOutcome::NotPermitted);
        }
        let Some(token) = row.try_get("token")? else {
            let Some(duplicate) = holder(connection, &Locks::of(request)).await? else {
                return Ok(ClaimOutcome::LookAgain);
            };
            // Whoever holds the key now may be as late as we are, and only about to find what was recorded since our look.
            let row = sqlx::query(LOOK).bind(request.id.as_bytes()).fetch_one(connection).await?;
            return Ok(found(&row)?.unwrap_or(ClaimOutcome::Running(Conflict { duplicate, remaining: None })));
        };
        if row.try_get("strict")? {
            sqlx::query(REACH_PAST_SNAPSHOT).bind(request.id.as_bytes()).execute(connection).await?;
        }
        Ok(ClaimOutcome::Claimed(Token(token)))
    }

    async fn rewind(connection: &mut PgConnection) -> Result<Written, sqlx::Error> {
        to_savepoint(connection, REWIND).await
    }

    async fn verify(connection: &mut PgConnection) -> Result<Written, sqlx::Error> {
        to_savepoint(connection, VERIFY).await
    }

    async fn record(
        connection: &mut PgConnection,
        token: &Token,
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
            .bind(f64::from(request.retention.as_secs()))
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
        // The answer is the session's end, which is an error; either way the connection is param to nobody again.
        let _ended = transaction.execute(TERMINATE).await;
    }

    fn fault(error: &sqlx::Error) -> Fault {
        let Some(database) = error.as_database_error() else { return Fault::Unavailable };
        match database.code().as_deref() {
            Some(code) if asks_for_another_run(code) => Fault::Transient,
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
            _ if asks_for_another_run(database.code()) => Fault::Transient,
            // insufficient resources, object in use, operator intervention, system error
            Some("53" | "55" | "57" | "58") => Fault::Unavailable,
            // A deferred constraint or trigger of the application.
            _ => Fault::Aborted,
        })
    }

    async fn prune(pool: &PgPool, most: i64) -> Result<u64, sqlx::Error> {
        // Under a stricter default of the database two pruners would meet in serialization failures.
        let mut transaction = pool.begin_with("BEGIN ISOLATION LEVEL READ COMMITTED").await?;
        let pruned = sqlx::query(PRUNE).bind(most).execute(&mut *transaction).await?.rows_affected();
        transaction.commit().await?;
        Ok(pruned)
    }

    async fn migrate(pool: &PgPool) -> Result<(), sqlx::Error> {
        for _ in 1..MAX_MIGRATIONS {
            match migrate(pool).await {
                // lock_not_available: a handler's transaction took longer. Meanwhile the others run.
                Err(error) if code(&error).as_deref() == Some("55P03") => sleep(BETWEEN_MIGRATIONS).await,
                migrated => return migrated,
            }
        }
        migrate(pool).await
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

async fn migrate(pool: &PgPool) -> Result<(), sqlx::Error> {
    let mut transaction = pool.begin().await?;
    transaction.execute(MIGRATION_LOCK).await?;
    let made: i32 = sqlx::query_scalar(MIGRATED).fetch_one(&mut *transaction).await?;
    transaction.execute(MIGRATION_LOCK_TIMEOUT).await?;
    for migration in MIGRATIONS.iter().copied().skip(usize::try_from(made).unwrap_or(0)) {
        transaction.execute(sqlx::raw_sql(migration)).await?;
    }
    transaction.commit().await
}

async fn to_savepoint(connection: &mut PgConnection, statement: &'static str) -> Result<Written, sqlx::Error> {
    match connection.execute(statement).await {
        Ok(_) => Ok(Written::Yes),
        // no_active_sql_transaction, invalid_savepoint_specification: the savepoint went with its transaction.
        Err(error) if matches!(code(&error).as_deref(), Some("25P01" | "3B001")) => Ok(Written::Ended),
        Err(error) => Err(error),
    }
}

/// The isolation level of the transaction that the message around it opens.
fn level(isolation: Option<Isolation>) -> &'static str {
    match isolation {
        None => "",
        Some(Isolation::ReadCommitted) => "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; ",
        Some(Isolation::RepeatableRead) => "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; ",
        Some(Isolation::Serializable) => "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; ",
    }
}

/// The record that a look found, completed or in progress.
fn found<Token>(row: &PgRow) -> Result<Option<ClaimOutcome<Token>>, sqlx::Error> {
    let Some(fingerprint) = row.try_get("fingerprint")? else { return Ok(None) };
    if row.try_get("held")? {
        return Ok(Some(ClaimOutcome::InProgress(InProgressRecord {
            fingerprint,
            remaining: milliseconds(row.try_get("remaining")?),
        })));
    }
    Ok(Some(ClaimOutcome::Completed(Record {
        fingerprint,
        format: row.try_get("format")?,
        status: row.try_get("status")?,
        headers: row.try_get("headers")?,
        body: row.try_get::<Vec<u8>, _>("body")?.into(),
    })))
}

/// What the holder of the key lock runs, if anybody holds it.
async fn holder(connection: &mut PgConnection, locks: &Locks) -> Result<Option<Duplicate>, sqlx::Error> {
    let same = sqlx::query_scalar(HOLDER).bind(locks.key).bind(&locks.requests[..]).fetch_optional(connection).await?;
    Ok(same.map(|same| if same { Duplicate::Same } else { Duplicate::Other }))
}

/// The advisory locks of an attempt.
struct Locks {
    key: i64,
    /// One for each of the request's fingerprints.
    requests: [i64; 2],
}

impl Locks {
    fn of(request: &ClaimRequest) -> Self {
        let lock = |fingerprint: Fingerprint| {
            number(Digest::of("request", [request.id.as_bytes(), &fingerprint.to_bytes()]).as_bytes())
        };
        Self { key: number(request.id.as_bytes()), requests: request.fingerprints().map(lock) }
    }

    /// What takes the locks, in the message that opens the transaction, so that they cost no round trip. Only the simple
    /// protocol carries more than one statement, and it binds nothing: what is formatted in are integers.
    ///
    /// Every attempt holds its locks until its transaction ends. The request locks are shared and taken first, so whoever
    /// finds the key lock taken can read in `pg_locks` which request its holder runs. An attempt that gets the key lock is
    /// given a transaction identifier, which tells `LOOK` so, and at the end that the transaction is still the same.
    ///
    /// The locks come before BEGIN, which takes what stands before it in the message into its transaction: should they
    /// fail (no lock memory, a cancelled statement), no transaction has been opened, of which sqlx would not know. The
    /// savepoint comes after them, because rolling back to it must not give them up.
    fn take(&self) -> String {
        let Self { key, requests: [bytes, fingerprint] } = self;
        format!(
            "SELECT pg_advisory_xact_lock_shared({bytes}), pg_advisory_xact_lock_shared({fingerprint}), \
                    CASE WHEN current_setting('transaction_read_only') = 'off' AND pg_try_advisory_xact_lock({key}) \
                         THEN pg_current_xact_id() END; "
        )
    }
}

/// The advisory lock of a digest: its first 64 bits. Of two keys that run at one moment, one pair in 2^64 shares it.
fn number(digest: &[u8]) -> i64 {
    digest.first_chunk().map_or(0, |start| i64::from_be_bytes(*start))
}

/// Whether a prepared statement was refused because the schema has changed since ("cached plan must not change result type",
/// told by the routine, since its SQLSTATE has other uses), or because the server has it no longer.
pub(super) fn is_stale_plan(error: &PgDatabaseError) -> bool {
    match error.code() {
        "0A000" => error.routine() == Some("RevalidateCachedQuery"),
        "26000" => true,
        _ => false,
    }
}

/// The SQLSTATE of a database error.
fn code(error: &sqlx::Error) -> Option<Cow<'_, str>> {
    error.as_database_error().and_then(DatabaseError::code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{record_id::RecordId, retention::Retention, scope::ScopeId};

    /// Claims of two releases meet in these numbers while a deployment rolls.
    #[test]
    fn b20_the_lock_numbers_are_pinned() {
        let fingerprint = Fingerprint::of_message(b"payload");
        let request = ClaimRequest {
            id: RecordId::of_key(ScopeId::new("ada").digest().expect("a scope"), b"order-1"),
            fingerprint,
            bytes: fingerprint,
            operation: "pay",
            retention: Retention::DAY,
        };
        let Locks { key, requests } = Locks::of(&request);
        assert_eq!((key, requests), (6_695_617_813_952_327_530, [1_258_667_852_330_346_710; 2]));
    }
}
