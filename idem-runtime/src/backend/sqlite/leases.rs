//! SQLite: leases, each a single statement that takes the write lock by itself. A handler with database effects under the
//! same key holds that lock, so a claim waits for it, or this process's memory knows of it.
//! Returned rows are read to the end: a statement by itself commits only then.

use std::time::Duration;

use sqlx::{Row, Sqlite, SqliteConnection, sqlite::SqliteRow};

use super::{look, no_savepoint, sql};
use crate::{
    backend::{
        AttemptId, ClaimOutcome, Holder, LeaseRequest, Leases, Schema, StalledRow, Survey, Take, WriteOutcome,
        rows::record_id,
    },
    model::record::Record,
};

impl Leases for Sqlite {
    async fn lease(
        connection: &mut SqliteConnection,
        _: &Schema,
        lease: &LeaseRequest,
    ) -> Result<ClaimOutcome<()>, sqlx::Error> {
        let leased = sqlx::query(sql::LEASE)
            .bind(lease.claim.id.as_bytes())
            .bind(lease.attempt.as_bytes())
            .bind(lease.claim.operation)
            .bind(lease.claim.fingerprint.to_bytes())
            .bind(as_millis(lease.length))
            .bind(lease.claim.retention.as_secs())
            .bind(lease.stored_request.as_deref())
            .fetch_all(&mut *connection)
            .await?;
        if !leased.is_empty() {
            return Ok(ClaimOutcome::Claimed(()));
        }
        Ok(look(connection, sql::LOOK, &lease.claim).await?.unwrap_or(ClaimOutcome::LookAgain))
    }

    async fn renew(
        connection: &mut SqliteConnection,
        _: &Schema,
        holder: &Holder,
        length: Duration,
    ) -> Result<WriteOutcome, sqlx::Error> {
        let renewed = sqlx::query(sql::RENEW)
            .bind(holder.id.as_bytes())
            .bind(holder.attempt.as_bytes())
            .bind(as_millis(length))
            .execute(connection)
            .await?;
        Ok(WriteOutcome::of_rows(renewed.rows_affected()))
    }

    async fn complete(
        connection: &mut SqliteConnection,
        _: &Schema,
        holder: &Holder,
        record: Record,
    ) -> Result<WriteOutcome, sqlx::Error> {
        complete(connection, sql::COMPLETE, holder, record).await
    }

    async fn complete_within(
        connection: &mut SqliteConnection,
        _: &Schema,
        holder: &Holder,
        record: Record,
    ) -> Result<WriteOutcome, sqlx::Error> {
        complete(connection, &sql::COMPLETE_WITHIN, holder, record).await.or_else(no_savepoint)
    }

    async fn release(
        connection: &mut SqliteConnection,
        _: &Schema,
        holder: &Holder,
    ) -> Result<WriteOutcome, sqlx::Error> {
        let released = sqlx::query(sql::RELEASE).bind(holder.id.as_bytes()).bind(holder.attempt.as_bytes());
        Ok(WriteOutcome::of_rows(released.execute(connection).await?.rows_affected()))
    }

    async fn postpone(
        connection: &mut SqliteConnection,
        _: &Schema,
        holder: &Holder,
        pause: Duration,
        error: Option<&str>,
        tries: Option<u32>,
    ) -> Result<WriteOutcome, sqlx::Error> {
        let postponed = sqlx::query(sql::POSTPONE)
            .bind(holder.id.as_bytes())
            .bind(holder.attempt.as_bytes())
            .bind(as_millis(pause))
            .bind(error)
            .bind(tries)
            .execute(connection)
            .await?;
        Ok(WriteOutcome::of_rows(postponed.rows_affected()))
    }

    async fn take(
        connection: &mut SqliteConnection,
        _: &Schema,
        take: Take<'_>,
        attempt: AttemptId,
        length: Duration,
    ) -> Result<Option<StalledRow>, sqlx::Error> {
        let statement = match take {
            Take::Due { operation, sweep_age, max_tries } => sqlx::query(sql::TAKE_DUE)
                .bind(attempt.as_bytes())
                .bind(as_millis(length))
                .bind(operation)
                .bind(as_millis(sweep_age))
                .bind(max_tries),
            Take::One(id) => {
                sqlx::query(sql::TAKE_ONE).bind(attempt.as_bytes()).bind(as_millis(length)).bind(id.as_bytes())
            }
        };
        statement.fetch_all(connection).await?.first().map(taken).transpose()
    }

    async fn survey(
        connection: &mut SqliteConnection,
        _: &Schema,
        operations: &[&str],
        max_tries: u32,
    ) -> Result<Survey, sqlx::Error> {
        // Names encode: a list of strings is always JSON.
        let operations = serde_json::to_string(operations).unwrap_or_default();
        let row = sqlx::query(sql::SURVEY).bind(operations).bind(max_tries).fetch_one(connection).await?;
        let count = |column| row.try_get::<i64, _>(column).map(i64::cast_unsigned);
        Ok(Survey { due: count("due")?, gave_up: count("gave_up")?, no_reconciler: count("no_reconciler")? })
    }

    async fn stalled(
        connection: &mut SqliteConnection,
        _: &Schema,
        limit: i64,
    ) -> Result<Vec<StalledRow>, sqlx::Error> {
        let rows = sqlx::query(sql::STALLED).bind(limit).fetch_all(connection).await?;
        rows.iter().map(listed).collect()
    }
}

async fn complete(
    connection: &mut SqliteConnection,
    statement: &'static str,
    holder: &Holder,
    record: Record,
) -> Result<WriteOutcome, sqlx::Error> {
    let completed = sqlx::query(statement)
        .bind(holder.id.as_bytes())
        .bind(holder.attempt.as_bytes())
        .bind(record.format)
        .bind(record.status)
        .bind(record.headers)
        .bind(&record.body[..])
        .fetch_all(connection)
        .await?;
    Ok(WriteOutcome::of_rows(completed.len() as u64))
}

/// Milliseconds, the unit of times in this database.
fn as_millis(length: Duration) -> i64 {
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
