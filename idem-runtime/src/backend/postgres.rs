//! PostgreSQL: the key is claimed by an advisory transaction lock, the record written by one insert at the end.
//! The claim itself is a function, `idem_claim_v1`; why it is one stands beside it in `migrations/postgres`.

use sqlx::{AssertSqlSafe, Executor, PgConnection, PgPool, Postgres, Row, Transaction, postgres::PgRow};

use super::{Backend, Fault, Look, Twin, Wanted, Written, code, expect_version, is_transient};
use crate::{digest::Digest, error::Error, policy::Isolation, record::Record};

const MIGRATIONS: [&str; 1] = [include_str!("../../migrations/postgres/0001_records.sql")];

/// Serializes migrations of several processes: the number is "idem" in ASCII.
const MIGRATION_LOCK: &str = "SELECT pg_advisory_xact_lock(1768187245)";

const REWIND: &str = "ROLLBACK TO SAVEPOINT idem_claim";
const RELEASE: &str = "RELEASE SAVEPOINT idem_claim";

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

/// The column types that the guarantees rest on: a key compared as bytes, a body stored as bytes; and the function.
const SCHEMA_AS_MADE: &str = "\
    SELECT to_regprocedure('idem_claim_v1(bigint, bigint, bytea)') IS NOT NULL \
       AND count(*) FILTER (WHERE atttypid = 'bytea'::regtype) = 4 \
      FROM pg_attribute \
     WHERE attrelid = to_regclass('idem_records') AND attname IN ('id', 'fingerprint', 'headers', 'body')";

/// The transaction's identifier, as `pg_current_xact_id` gave it to the claim.
#[derive(Debug)]
pub struct TransactionId(String);

impl Backend for Postgres {
    type Token = TransactionId;

    fn begin(isolation: Option<Isolation>) -> &'static str {
        match isolation {
            None => "BEGIN",
            Some(Isolation::ReadCommitted) => "BEGIN ISOLATION LEVEL READ COMMITTED",
            Some(Isolation::RepeatableRead) => "BEGIN ISOLATION LEVEL REPEATABLE READ",
            Some(Isolation::Serializable) => "BEGIN ISOLATION LEVEL SERIALIZABLE",
        }
    }

    fn begin_unkeyed(isolation: Option<Isolation>) -> &'static str {
        match isolation {
            None => "BEGIN; SAVEPOINT idem_claim",
            Some(Isolation::ReadCommitted) => "BEGIN ISOLATION LEVEL READ COMMITTED; SAVEPOINT idem_claim",
            Some(Isolation::RepeatableRead) => "BEGIN ISOLATION LEVEL REPEATABLE READ; SAVEPOINT idem_claim",
            Some(Isolation::Serializable) => "BEGIN ISOLATION LEVEL SERIALIZABLE; SAVEPOINT idem_claim",
        }
    }

    async fn claim(connection: &mut PgConnection, wanted: &Wanted) -> Result<Look<TransactionId>, sqlx::Error> {
        // One message for the claim and the savepoint behind it saves a round trip on every new key. Only the simple
        // protocol carries two statements, and it binds nothing: what is formatted in are two integers and hex digits.
        let request = Digest::of("request", [wanted.id.as_bytes(), wanted.fingerprint.digest().as_bytes()]);
        let (key_lock, request_lock, id) = (lock(&wanted.id), lock(&request), hex(&wanted.id));
        let claim = format!(
            "SELECT * FROM idem_claim_v1({key_lock}, {request_lock}, decode('{id}', 'hex')); SAVEPOINT idem_claim"
        );
        let row = connection.fetch_optional(sqlx::raw_sql(AssertSqlSafe(claim))).await?;
        look(&row.ok_or(sqlx::Error::RowNotFound)?)
    }

    async fn rewind(connection: &mut PgConnection) -> Result<Written, sqlx::Error> {
        to_savepoint(connection, REWIND).await
    }

    async fn release(connection: &mut PgConnection) -> Result<Written, sqlx::Error> {
        to_savepoint(connection, RELEASE).await
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
        match code(error).as_deref() {
            _ if is_transient(error) => Fault::Transient,
            Some("25P02") => Fault::Aborted,
            Some(integrity) if integrity.starts_with("23") => Fault::Aborted,
            // undefined function, table, column; insufficient privilege; invalid schema
            Some("42883" | "42P01" | "42703" | "42501" | "3F000") => Fault::Schema,
            _ => Fault::Unavailable,
        }
    }

    fn refused_commit(error: &sqlx::Error) -> bool {
        // Integrity constraints and transaction rollbacks are decided before anything is made durable;
        // 40003 (statement completion unknown) is the one member of its class that says otherwise.
        code(error).is_some_and(|code| code != "40003" && (code.starts_with("23") || code.starts_with("40")))
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

fn look(row: &PgRow) -> Result<Look<TransactionId>, sqlx::Error> {
    Ok(match row.try_get("outcome")? {
        "claimed" => Look::Claimed(TransactionId(row.try_get("claim_token")?)),
        "same" => Look::Running(Twin::Same),
        "other" => Look::Running(Twin::Other),
        "read_only" => Look::ReadOnly,
        _ => Look::Completed(Record {
            fingerprint: row.try_get("stored_fingerprint")?,
            format: row.try_get("stored_format")?,
            status: row.try_get("stored_status")?,
            headers: row.try_get("stored_headers")?,
            body: row.try_get::<Vec<u8>, _>("stored_body")?.into(),
        }),
    })
}

/// The advisory lock of a digest: its first 64 bits. Two keys running at one moment share it once in 2^64 pairs.
fn lock(digest: &Digest) -> i64 {
    digest.as_bytes().first_chunk().map_or(0, |start| i64::from_be_bytes(*start))
}

fn hex(digest: &Digest) -> String {
    let mut hex = String::with_capacity(64);
    for byte in digest.as_bytes() {
        for digit in [byte >> 4, byte & 15] {
            hex.extend(char::from_digit(u32::from(digit), 16));
        }
    }
    hex
}
