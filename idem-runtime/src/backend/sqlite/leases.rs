//! SQLite: leases, each a single statement that takes the write lock for itself alone. A handler with database effects
//! under the same key holds that lock, so a claim waits for it, or is told of it by this process's memory.
//! Returned rows are read to the end: a statement by itself commits only then.

use std::time::Duration;

use sqlx::{Row, Sqlite, SqliteConnection, SqlitePool, sqlite::SqliteRow};

use super::{LOOK, look, no_savepoint, now};
use crate::{
    backend::{
        AttemptId, ClaimOutcome, Holder, LeaseRequest, Leases, StalledRow, Survey, Take, Written,
        leases::{record_id, written},
    },
    model::record::Record,
};

/// Inserts a record in progress, or replaces an expired one.
const LEASE: &str = concat!(
    "INSERT INTO idem_records AS r \
        (id, attempt, operation, fingerprint, lease_until, retention, request, \
         format, status, headers, body, created_at, expires_at) \
     SELECT ?1, ?2, ?3, ?4, clock.now + ?5, ?6, ?7, 0, 0, x'', x'', clock.now, 9223372036854775807 \
       FROM (SELECT ",
    now!(),
    " AS now) AS clock \
      WHERE true \
     ON CONFLICT (id) DO UPDATE SET \
         attempt = excluded.attempt, operation = excluded.operation, fingerprint = excluded.fingerprint, \
         lease_until = excluded.lease_until, retention = excluded.retention, request = excluded.request, \
         asked = NULL, last_error = NULL, format = 0, status = 0, headers = x'', body = x'', \
         created_at = excluded.created_at, expires_at = excluded.expires_at \
      WHERE r.expires_at <= excluded.created_at OR r.attempt = excluded.attempt \
     RETURNING true"
);

const RENEW: &str = concat!("UPDATE idem_records SET lease_until = ", now!(), " + ?3 WHERE id = ?1 AND attempt = ?2");

macro_rules! complete {
    ($before:literal) => {
        concat!(
            $before,
            "UPDATE idem_records SET format = ?3, status = ?4, headers = ?5, body = ?6, expires_at = ",
            now!(),
            " + retention * 1000, attempt = NULL, lease_until = NULL, last_error = NULL, request = NULL \
              WHERE id = ?1 AND attempt = ?2 RETURNING true"
        )
    };
}

const COMPLETE: &str = complete!("");

/// The savepoint is released here because only its own transaction has it: after the handler's COMMIT it is gone.
const COMPLETE_WITHIN: &str = complete!("RELEASE idem_claim; ");

const RELEASE: &str = "DELETE FROM idem_records WHERE id = ?1 AND attempt = ?2";

const POSTPONE: &str = concat!(
    "UPDATE idem_records SET lease_until = ",
    now!(),
    " + ?3, last_error = ?4, asked = coalesce(?5, asked) WHERE id = ?1 AND attempt = ?2"
);

/// Nodes take one after another: SQLite has one writer.
const TAKE_DUE: &str = concat!(
    "UPDATE idem_records SET attempt = ?1, lease_until = ",
    now!(),
    " + ?2, asked = coalesce(asked, 0) + 1 \
      WHERE id = (SELECT id FROM idem_records \
                   WHERE attempt IS NOT NULL AND operation = ?3 AND lease_until <= ",
    now!(),
    " - ?4 AND coalesce(asked, 0) < ?5 ORDER BY lease_until LIMIT 1) \
     RETURNING id, operation, created_at AS started_at, asked - 1 AS tries, last_error, request"
);

const TAKE_ONE: &str = concat!(
    "UPDATE idem_records SET attempt = ?1, lease_until = ",
    now!(),
    " + ?2 WHERE id = ?3 AND attempt IS NOT NULL AND (lease_until <= ",
    now!(),
    " OR asked > 0) \
     RETURNING id, operation, created_at AS started_at, coalesce(asked, 0) AS tries, last_error, request"
);

/// SQLite's planner, which knows nothing of how few records are in progress, is told which index to read.
const SURVEY: &str = concat!(
    "SELECT count(*) FILTER (WHERE known AND coalesce(asked, 0) < ?2) AS due, \
            count(*) FILTER (WHERE known AND coalesce(asked, 0) >= ?2) AS gave_up, \
            count(*) FILTER (WHERE NOT known) AS no_reconciler \
       FROM (SELECT asked, operation IN (SELECT value FROM json_each(?1)) AS known \
               FROM idem_records INDEXED BY idem_records_in_progress \
              WHERE attempt IS NOT NULL AND lease_until <= ",
    now!(),
    ")"
);

const STALLED: &str = concat!(
    "SELECT id, operation, created_at AS started_at, coalesce(asked, 0) AS tries, last_error \
       FROM idem_records INDEXED BY idem_records_in_progress \
      WHERE attempt IS NOT NULL AND (lease_until <= ",
    now!(),
    " OR asked > 0) ORDER BY created_at LIMIT ?1"
);

impl Leases for Sqlite {
    async fn lease(connection: &mut SqliteConnection, lease: &LeaseRequest) -> Result<ClaimOutcome<()>, sqlx::Error> {
        let leased = sqlx::query(LEASE)
            .bind(lease.claim.id.as_bytes())
            .bind(lease.attempt.as_bytes())
            .bind(lease.claim.operation)
            .bind(lease.claim.fingerprint.to_bytes())
            .bind(whole(lease.length))
            .bind(lease.claim.retention.as_secs())
            .bind(lease.stored_request.as_deref())
            .fetch_all(&mut *connection)
            .await?;
        if !leased.is_empty() {
            return Ok(ClaimOutcome::Claimed(()));
        }
        Ok(look(connection, LOOK, &lease.claim).await?.unwrap_or(ClaimOutcome::LookAgain))
    }

    async fn renew(
        connection: &mut SqliteConnection,
        holder: &Holder,
        length: Duration,
    ) -> Result<Written, sqlx::Error> {
        let renewed = sqlx::query(RENEW)
            .bind(holder.id.as_bytes())
            .bind(holder.attempt.as_bytes())
            .bind(whole(length))
            .execute(connection)
            .await?;
        Ok(written(renewed.rows_affected()))
    }

    async fn complete(
        connection: &mut SqliteConnection,
        holder: &Holder,
        record: Record,
    ) -> Result<Written, sqlx::Error> {
        complete(connection, COMPLETE, holder, record).await
    }

    async fn complete_within(
        connection: &mut SqliteConnection,
        holder: &Holder,
        record: Record,
    ) -> Result<Written, sqlx::Error> {
        complete(connection, COMPLETE_WITHIN, holder, record).await.or_else(no_savepoint)
    }

    async fn release(connection: &mut SqliteConnection, holder: &Holder) -> Result<Written, sqlx::Error> {
        let released = sqlx::query(RELEASE).bind(holder.id.as_bytes()).bind(holder.attempt.as_bytes());
        Ok(written(released.execute(connection).await?.rows_affected()))
    }

    async fn postpone(
        connection: &mut SqliteConnection,
        holder: &Holder,
        pause: Duration,
        error: Option<&str>,
        tries: Option<u32>,
    ) -> Result<Written, sqlx::Error> {
        let postponed = sqlx::query(POSTPONE)
            .bind(holder.id.as_bytes())
            .bind(holder.attempt.as_bytes())
            .bind(whole(pause))
            .bind(error)
            .bind(tries)
            .execute(connection)
            .await?;
        Ok(written(postponed.rows_affected()))
    }

    async fn take(
        pool: &SqlitePool,
        take: Take<'_>,
        attempt: AttemptId,
        length: Duration,
    ) -> Result<Option<StalledRow>, sqlx::Error> {
        let statement = match take {
            Take::Due { operation, since, max_tries } => sqlx::query(TAKE_DUE)
                .bind(attempt.as_bytes())
                .bind(whole(length))
                .bind(operation)
                .bind(whole(since))
                .bind(max_tries),
            Take::One(id) => sqlx::query(TAKE_ONE).bind(attempt.as_bytes()).bind(whole(length)).bind(id.as_bytes()),
        };
        statement.fetch_all(pool).await?.first().map(taken).transpose()
    }

    async fn survey(pool: &SqlitePool, operations: &[&str], max_tries: u32) -> Result<Survey, sqlx::Error> {
        // Names encode: a list of strings is always JSON.
        let operations = serde_json::to_string(operations).unwrap_or_default();
        let row = sqlx::query(SURVEY).bind(operations).bind(max_tries).fetch_one(pool).await?;
        let count = |column| row.try_get::<i64, _>(column).map(i64::cast_unsigned);
        Ok(Survey { due: count("due")?, gave_up: count("gave_up")?, no_reconciler: count("no_reconciler")? })
    }

    async fn stalled(pool: &SqlitePool, most: i64) -> Result<Vec<StalledRow>, sqlx::Error> {
        let rows = sqlx::query(STALLED).bind(most).fetch_all(pool).await?;
        rows.iter().map(listed).collect()
    }
}

async fn complete(
    connection: &mut SqliteConnection,
    statement: &'static str,
    holder: &Holder,
    record: Record,
) -> Result<Written, sqlx::Error> {
    let completed = sqlx::query(statement)
        .bind(holder.id.as_bytes())
        .bind(holder.attempt.as_bytes())
        .bind(record.format)
        .bind(record.status)
        .bind(record.headers)
        .bind(&record.body[..])
        .fetch_all(connection)
        .await?;
    Ok(written(completed.len() as u64))
}

/// BufferedResponse milliseconds, as this database counts time.
fn whole(length: Duration) -> i64 {
    i64::try_from(length.as_millis()).unwrap_or(i64::MAX / 4)
}

fn taken(row: &SqliteRow) -> Result<StalledRow, sqlx::Error> {
    Ok(StalledRow { request: row.try_get("request")?, ..listed(row)? })
}

fn listed(row: &SqliteRow) -> Result<StalledRow, sqlx::Error> {
    Ok(StalledRow {
        id: record_id(row.try_get("id")?)?,
        operation: row.try_get("operation")?,
        started_at: row.try_get("started_at")?,
        tries: row.try_get("tries")?,
        last_error: row.try_get("last_error")?,
        request: None,
    })
}
