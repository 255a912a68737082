//! PostgreSQL: leases, each a single statement. The claim still takes the key's lock, for the length of its statement, so
//! that it meets a handler with database effects under the same key, whose record is not written yet.

use std::time::Duration;

use sqlx::{Connection, PgConnection, Postgres, Row, SqlStr, postgres::PgRow};

use super::{claim::found, code, locks::Locks, sql};
use crate::{
    backend::{
        AttemptId, ClaimOutcome, Holder, LeaseRequest, Leases, Schema, StalledRow, Survey, Take, WriteOutcome,
        rows::record_id,
    },
    model::record::Record,
};

/// Runs a statement that stands alone. Behind a pooler that assigns a session to one transaction at a time, sqlx prepares it in one
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

impl Leases for Postgres {
    async fn lease(
        connection: &mut PgConnection,
        schema: &Schema,
        lease: &LeaseRequest,
    ) -> Result<ClaimOutcome<()>, sqlx::Error> {
        let Locks { key, requests: [bytes, fingerprint] } = Locks::of(&lease.claim);
        let leased = alone!(
            connection,
            sqlx::query(sql::within(schema, sql::LEASE))
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

    async fn renew(
        connection: &mut PgConnection,
        schema: &Schema,
        holder: &Holder,
        length: Duration,
    ) -> Result<WriteOutcome, sqlx::Error> {
        let renewed = alone!(
            connection,
            sqlx::query(sql::within(schema, sql::RENEW))
                .bind(holder.id.as_bytes())
                .bind(holder.attempt.as_bytes())
                .bind(length.as_secs_f64())
                .execute(&mut *connection)
                .await
        );
        let renewed = renewed?;
        Ok(WriteOutcome::of_rows(renewed.rows_affected()))
    }

    async fn complete(
        connection: &mut PgConnection,
        schema: &Schema,
        holder: &Holder,
        record: Record,
    ) -> Result<WriteOutcome, sqlx::Error> {
        let completed =
            alone!(connection, complete(&mut *connection, sql::within(schema, sql::COMPLETE), holder, &record).await);
        Ok(WriteOutcome::of_rows(completed?))
    }

    async fn complete_within(
        connection: &mut PgConnection,
        schema: &Schema,
        holder: &Holder,
        record: Record,
    ) -> Result<WriteOutcome, sqlx::Error> {
        sqlx::query(sql::RESTORE_MARKED_SESSION).execute(&mut *connection).await?;
        if complete(connection, sql::within(schema, sql::COMPLETE_WITHIN), holder, &record).await? == 1 {
            return Ok(WriteOutcome::Written);
        }
        let marked = sqlx::query_scalar(sql::MARKED).bind(holder.attempt.as_bytes()).fetch_one(connection).await?;
        Ok(if marked { WriteOutcome::Lost } else { WriteOutcome::TransactionEnded })
    }

    async fn release(
        connection: &mut PgConnection,
        schema: &Schema,
        holder: &Holder,
    ) -> Result<WriteOutcome, sqlx::Error> {
        let released = alone!(
            connection,
            sqlx::query(sql::within(schema, sql::RELEASE))
                .bind(holder.id.as_bytes())
                .bind(holder.attempt.as_bytes())
                .execute(&mut *connection)
                .await
        );
        Ok(WriteOutcome::of_rows(released?.rows_affected()))
    }

    async fn postpone(
        connection: &mut PgConnection,
        schema: &Schema,
        holder: &Holder,
        pause: Duration,
        error: Option<&str>,
        tries: Option<u32>,
    ) -> Result<WriteOutcome, sqlx::Error> {
        let postponed = alone!(
            connection,
            sqlx::query(sql::within(schema, sql::POSTPONE))
                .bind(holder.id.as_bytes())
                .bind(holder.attempt.as_bytes())
                .bind(pause.as_secs_f64())
                .bind(error)
                .bind(tries.map(u32::cast_signed))
                .execute(&mut *connection)
                .await
        );
        Ok(WriteOutcome::of_rows(postponed?.rows_affected()))
    }

    async fn take(
        connection: &mut PgConnection,
        schema: &Schema,
        take: Take<'_>,
        attempt: AttemptId,
        length: Duration,
    ) -> Result<Option<StalledRow>, sqlx::Error> {
        let statement = match take {
            Take::Due { operation, sweep_age, max_tries } => sqlx::query(sql::within(schema, sql::TAKE_DUE))
                .bind(attempt.as_bytes())
                .bind(length.as_secs_f64())
                .bind(operation)
                .bind(sweep_age.as_secs_f64())
                .bind(max_tries.cast_signed()),
            Take::One(id) => sqlx::query(sql::within(schema, sql::TAKE_ONE))
                .bind(attempt.as_bytes())
                .bind(length.as_secs_f64())
                .bind(id.as_bytes()),
        };
        // Under a stricter default of the database two nodes would meet in serialization failures.
        let mut transaction = connection.begin_with(sql::BEGIN_READ_COMMITTED).await?;
        let row = statement.fetch_optional(&mut *transaction).await?;
        transaction.commit().await?;
        row.as_ref().map(taken).transpose()
    }

    async fn survey(
        connection: &mut PgConnection,
        schema: &Schema,
        operations: &[&str],
        max_tries: u32,
    ) -> Result<Survey, sqlx::Error> {
        let surveyed = alone!(
            connection,
            sqlx::query(sql::within(schema, sql::SURVEY))
                .bind(operations)
                .bind(max_tries.cast_signed())
                .fetch_one(&mut *connection)
                .await
        );
        let row = surveyed?;
        let count = |column| row.try_get::<i64, _>(column).map(i64::cast_unsigned);
        Ok(Survey { due: count("due")?, gave_up: count("gave_up")?, no_reconciler: count("no_reconciler")? })
    }

    async fn stalled(
        connection: &mut PgConnection,
        schema: &Schema,
        limit: i64,
    ) -> Result<Vec<StalledRow>, sqlx::Error> {
        let rows = alone!(
            connection,
            sqlx::query(sql::within(schema, sql::STALLED)).bind(limit).fetch_all(&mut *connection).await
        );
        rows?.iter().map(listed).collect()
    }
}

async fn complete(
    connection: &mut PgConnection,
    statement: SqlStr,
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
