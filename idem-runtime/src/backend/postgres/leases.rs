//! PostgreSQL: leases, each a single statement. The claim still takes the key's lock, for the length of its statement, so
//! that it meets a handler with database effects under the same key, whose record is not written yet.

use std::{fmt::Write as _, time::Duration};

use sqlx::{Connection, PgConnection, PgPool, Postgres, Row, postgres::PgRow};

use super::{Locks, code, found};
use crate::{
    backend::{
        AttemptId, ClaimOutcome, Holder, LeaseRequest, Leases, StalledRow, Survey, Take, Written,
        leases::{record_id, written},
    },
    model::record::Record,
};

/// Reads the record, and where there is none inserts one in progress, or replaces an expired one. The request locks come
/// before the key's as in a claim, so that whoever finds that one taken can tell whose it is. Neither is taken if there is
/// a record. The insert sees also what was committed after the snapshot of the rest.
const LEASE: &str = "\
    WITH held AS MATERIALIZED ( \
        SELECT fingerprint, format, status, headers, body, attempt IS NOT NULL AS held, \
               (extract(epoch FROM lease_until - clock_timestamp()) * 1000)::bigint AS remaining \
          FROM idem_records WHERE id = $1 AND expires_at > clock_timestamp() AND attempt IS DISTINCT FROM $2), \
    locks AS MATERIALIZED ( \
        SELECT pg_advisory_xact_lock_shared($8), pg_advisory_xact_lock_shared($9), \
               pg_try_advisory_xact_lock($10) AS taken \
         WHERE NOT EXISTS (SELECT FROM held)), \
    leased AS ( \
        INSERT INTO idem_records AS r \
            (id, attempt, operation, fingerprint, lease_until, retention, request, \
             format, status, headers, body, created_at, expires_at) \
        SELECT $1, $2, $3, $4, clock_timestamp() + make_interval(secs => $5), $6, $7, \
               0, 0, '', '', clock_timestamp(), 'infinity' \
          FROM locks WHERE locks.taken \
        ON CONFLICT (id) DO UPDATE SET \
            attempt = excluded.attempt, operation = excluded.operation, fingerprint = excluded.fingerprint, \
            lease_until = excluded.lease_until, retention = excluded.retention, request = excluded.request, \
            asked = NULL, last_error = NULL, format = 0, status = 0, headers = '', body = '', \
            created_at = excluded.created_at, expires_at = 'infinity' \
         WHERE r.expires_at <= clock_timestamp() OR r.attempt = excluded.attempt \
        RETURNING true) \
    SELECT EXISTS (SELECT FROM leased) AS leased, held.* \
      FROM (VALUES (1)) AS always LEFT JOIN held ON true";

const RENEW: &str = "\
    UPDATE idem_records SET lease_until = clock_timestamp() + make_interval(secs => $3) WHERE id = $1 AND attempt = $2";

macro_rules! complete {
    ($demand:literal) => {
        concat!(
            "UPDATE idem_records SET format = $3, status = $4, headers = $5, body = $6, \
                    expires_at = clock_timestamp() + make_interval(secs => retention), \
                    attempt = NULL, lease_until = NULL, last_error = NULL, request = NULL \
              WHERE id = $1 AND attempt = $2",
            $demand
        )
    };
}

const COMPLETE: &str = complete!("");

/// In the transaction that was opened for it, which alone has the mark: a COMMIT of the handler's own ends that too.
const COMPLETE_WITHIN: &str = complete!(" AND current_setting('idem.attempt', true) = encode($2, 'hex')");

const MARKED: &str = "SELECT current_setting('idem.attempt', true) IS NOT DISTINCT FROM encode($1, 'hex')";

const RELEASE: &str = "DELETE FROM idem_records WHERE id = $1 AND attempt = $2";

const POSTPONE: &str = "\
    UPDATE idem_records SET lease_until = clock_timestamp() + make_interval(secs => $3), last_error = $4, asked = coalesce($5, asked) \
     WHERE id = $1 AND attempt = $2";

/// What another node is taking at this moment is left to it. The statement's own time, unlike the clock's, is one for all rows,
/// so the index gives those before it and no live attempt is looked at.
const TAKE_DUE: &str = "\
    UPDATE idem_records \
       SET attempt = $1, lease_until = clock_timestamp() + make_interval(secs => $2), asked = coalesce(asked, 0) + 1 \
     WHERE id = (SELECT id FROM idem_records \
                  WHERE attempt IS NOT NULL AND operation = $3 \
                    AND lease_until <= statement_timestamp() - make_interval(secs => $4) AND coalesce(asked, 0) < $5 \
                  ORDER BY lease_until LIMIT 1 FOR UPDATE SKIP LOCKED) \
    RETURNING id, operation, (extract(epoch FROM created_at) * 1000)::bigint AS started_at, asked - 1 AS tries, \
              last_error, request";

const TAKE_ONE: &str = "\
    UPDATE idem_records \
       SET attempt = $1, lease_until = clock_timestamp() + make_interval(secs => $2) \
     WHERE id = $3 AND attempt IS NOT NULL AND (lease_until <= clock_timestamp() OR asked > 0) \
    RETURNING id, operation, (extract(epoch FROM created_at) * 1000)::bigint AS started_at, coalesce(asked, 0) AS tries, \
              last_error, request";

const SURVEY: &str = "\
    SELECT count(*) FILTER (WHERE operation = ANY ($1) AND coalesce(asked, 0) < $2) AS due, \
           count(*) FILTER (WHERE operation = ANY ($1) AND coalesce(asked, 0) >= $2) AS gave_up, \
           count(*) FILTER (WHERE operation <> ALL ($1)) AS no_reconciler \
      FROM idem_records WHERE attempt IS NOT NULL AND lease_until <= statement_timestamp()";

const STALLED: &str = "\
    SELECT id, operation, (extract(epoch FROM created_at) * 1000)::bigint AS started_at, coalesce(asked, 0) AS tries, \
           last_error \
      FROM idem_records \
     WHERE attempt IS NOT NULL AND (lease_until <= clock_timestamp() OR asked > 0) \
     ORDER BY created_at LIMIT $1";

/// Runs a statement that stands alone. Behind a pooler that lends sessions for one transaction each, sqlx prepares it in one
/// session and runs it in another, which refuses it before anything is done if the pooler carries no prepared statements over:
/// then it is run once more inside a transaction, which stays in one session.
macro_rules! alone {
    ($connection:ident, $run:expr) => {
        match $run {
            // invalid_sql_statement_name
            Err(error) if code(&error).as_deref() == Some("26000") => {
                match Connection::begin(&mut *$connection).await {
                    Ok(mut transaction) => {
                        let done = {
                            let $connection = &mut *transaction;
                            $run
                        };
                        match done {
                            Ok(done) => transaction.commit().await.map(|()| done),
                            Err(error) => Err(error),
                        }
                    }
                    Err(error) => Err(error),
                }
            }
            other => other,
        }
    };
}

/// Marks the transaction that the message around it opens: a setting that goes with the transaction, whoever ends it.
pub(super) fn mark(holder: &Holder) -> String {
    let mut statement = String::from("SET LOCAL idem.attempt = '");
    for byte in holder.attempt.as_bytes() {
        // Into a string nothing fails.
        let _written = write!(statement, "{byte:02x}");
    }
    statement.push_str("'; ");
    statement
}

impl Leases for Postgres {
    async fn lease(connection: &mut PgConnection, lease: &LeaseRequest) -> Result<ClaimOutcome<()>, sqlx::Error> {
        let Locks { key, requests: [bytes, fingerprint] } = Locks::of(&lease.claim);
        let leased = alone!(
            connection,
            sqlx::query(LEASE)
                .bind(lease.claim.id.as_bytes())
                .bind(lease.attempt.as_bytes())
                .bind(lease.claim.operation)
                .bind(lease.claim.fingerprint.to_bytes())
                .bind(lease.length.as_secs_f64())
                .bind(i64::from(lease.claim.retention.as_secs()))
                .bind(lease.stored_request.as_deref())
                .bind(bytes)
                .bind(fingerprint)
                .bind(key)
                .fetch_one(&mut *connection)
                .await
        );
        let row = match leased {
            // read_only_sql_transaction
            Err(error) if code(&error).as_deref() == Some("25006") => return Ok(ClaimOutcome::ReadOnly),
            other => other?,
        };
        if row.try_get("leased")? {
            return Ok(ClaimOutcome::Claimed(()));
        }
        Ok(found(&row)?.unwrap_or(ClaimOutcome::LookAgain))
    }

    async fn renew(connection: &mut PgConnection, holder: &Holder, length: Duration) -> Result<Written, sqlx::Error> {
        let renewed = alone!(
            connection,
            sqlx::query(RENEW)
                .bind(holder.id.as_bytes())
                .bind(holder.attempt.as_bytes())
                .bind(length.as_secs_f64())
                .execute(&mut *connection)
                .await
        );
        let renewed = renewed?;
        Ok(written(renewed.rows_affected()))
    }

    async fn complete(connection: &mut PgConnection, holder: &Holder, record: Record) -> Result<Written, sqlx::Error> {
        let completed = alone!(connection, complete(&mut *connection, COMPLETE, holder, &record).await);
        Ok(written(completed?))
    }

    async fn complete_within(
        connection: &mut PgConnection,
        holder: &Holder,
        record: Record,
    ) -> Result<Written, sqlx::Error> {
        if complete(connection, COMPLETE_WITHIN, holder, &record).await? == 1 {
            return Ok(Written::Yes);
        }
        let marked = sqlx::query_scalar(MARKED).bind(holder.attempt.as_bytes()).fetch_one(connection).await?;
        Ok(if marked { Written::Lost } else { Written::Ended })
    }

    async fn release(connection: &mut PgConnection, holder: &Holder) -> Result<Written, sqlx::Error> {
        let released = alone!(
            connection,
            sqlx::query(RELEASE)
                .bind(holder.id.as_bytes())
                .bind(holder.attempt.as_bytes())
                .execute(&mut *connection)
                .await
        );
        Ok(written(released?.rows_affected()))
    }

    async fn postpone(
        connection: &mut PgConnection,
        holder: &Holder,
        pause: Duration,
        error: Option<&str>,
        tries: Option<u32>,
    ) -> Result<Written, sqlx::Error> {
        let postponed = alone!(
            connection,
            sqlx::query(POSTPONE)
                .bind(holder.id.as_bytes())
                .bind(holder.attempt.as_bytes())
                .bind(pause.as_secs_f64())
                .bind(error)
                .bind(tries.map(u32::cast_signed))
                .execute(&mut *connection)
                .await
        );
        Ok(written(postponed?.rows_affected()))
    }

    async fn take(
        pool: &PgPool,
        take: Take<'_>,
        attempt: AttemptId,
        length: Duration,
    ) -> Result<Option<StalledRow>, sqlx::Error> {
        let statement = match take {
            Take::Due { operation, since, max_tries } => sqlx::query(TAKE_DUE)
                .bind(attempt.as_bytes())
                .bind(length.as_secs_f64())
                .bind(operation)
                .bind(since.as_secs_f64())
                .bind(max_tries.cast_signed()),
            Take::One(id) => {
                sqlx::query(TAKE_ONE).bind(attempt.as_bytes()).bind(length.as_secs_f64()).bind(id.as_bytes())
            }
        };
        // Under a stricter default of the database two nodes would meet in serialization failures.
        let mut transaction = pool.begin_with("BEGIN ISOLATION LEVEL READ COMMITTED").await?;
        let row = statement.fetch_optional(&mut *transaction).await?;
        transaction.commit().await?;
        row.as_ref().map(taken).transpose()
    }

    async fn survey(pool: &PgPool, operations: &[&str], max_tries: u32) -> Result<Survey, sqlx::Error> {
        let mut connection = pool.acquire().await?;
        let surveyed = alone!(
            connection,
            sqlx::query(SURVEY).bind(operations).bind(max_tries.cast_signed()).fetch_one(&mut *connection).await
        );
        let row = surveyed?;
        let count = |column| row.try_get::<i64, _>(column).map(i64::cast_unsigned);
        Ok(Survey { due: count("due")?, gave_up: count("gave_up")?, no_reconciler: count("no_reconciler")? })
    }

    async fn stalled(pool: &PgPool, most: i64) -> Result<Vec<StalledRow>, sqlx::Error> {
        let mut connection = pool.acquire().await?;
        let rows = alone!(connection, sqlx::query(STALLED).bind(most).fetch_all(&mut *connection).await);
        rows?.iter().map(listed).collect()
    }
}

async fn complete(
    connection: &mut PgConnection,
    statement: &'static str,
    holder: &Holder,
    record: &Record,
) -> Result<u64, sqlx::Error> {
    let completed = sqlx::query(statement)
        .bind(holder.id.as_bytes())
        .bind(holder.attempt.as_bytes())
        .bind(record.format)
        .bind(record.status)
        .bind(&record.headers[..])
        .bind(&record.body[..])
        .execute(connection)
        .await?;
    Ok(completed.rows_affected())
}

fn taken(row: &PgRow) -> Result<StalledRow, sqlx::Error> {
    Ok(StalledRow { request: row.try_get("request")?, ..listed(row)? })
}

fn listed(row: &PgRow) -> Result<StalledRow, sqlx::Error> {
    Ok(StalledRow {
        id: record_id(row.try_get("id")?)?,
        operation: row.try_get("operation")?,
        started_at: row.try_get("started_at")?,
        tries: row.try_get::<i32, _>("tries")?.cast_unsigned(),
        last_error: row.try_get("last_error")?,
        request: None,
    })
}
