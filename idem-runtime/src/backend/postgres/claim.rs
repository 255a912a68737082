//! PostgreSQL: the claim of a key in a transaction that has taken its locks, and what a look finds.
//! A stricter level than READ COMMITTED claims by an insert, so that keys do not conflict with each other.

use sqlx::{Executor, PgConnection, Row, postgres::PgRow};

use super::{
    ClaimOutcome, ClaimRequest, Conflict, InProgressRecord, Schema, Session, Token, column, locks, locks::Locks,
    milliseconds, null, record, sql,
};
use crate::model::record::{Record, StoredRecord};

/// The level of the claim's transaction, and how it sees the table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    /// Each statement sees what is committed by then.
    ReadCommitted,
    /// The transaction sees what was committed before its locks.
    Strict,
}

/// Claims the key, or finds what holds it.
pub(super) async fn claim(
    connection: &mut PgConnection,
    schema: &Schema,
    request: &ClaimRequest,
) -> Result<ClaimOutcome<Token>, sqlx::Error> {
    let row = look(connection, schema, request).await?;
    if let Some(found) = found(&row)? {
        return Ok(found);
    }
    if row.try_get("read_only")? {
        return Ok(ClaimOutcome::ReadOnly);
    }
    if !row.try_get::<bool, _>("permitted")? {
        return Ok(ClaimOutcome::NotPermitted);
    }
    let level = if row.try_get("strict")? { Level::Strict } else { Level::ReadCommitted };
    let Some(mark) = row.try_get("token")? else {
        return beside_the_holder(connection, schema, request, level).await;
    };
    if level == Level::Strict {
        let place = sqlx::query(sql::within(schema, sql::TAKE_PLACE)).bind(request.id.as_bytes());
        if place.fetch_optional(&mut *connection).await?.is_none() {
            let row = look_without_snapshot(connection, schema, request).await?;
            return Ok(found(&row)?.unwrap_or(ClaimOutcome::LookAgain));
        }
    }
    let session = match request.session {
        Session::AsLeft => None,
        Session::OfClaim => Some(record::session(&sqlx::query(sql::SESSION).fetch_one(connection).await?)?),
    };
    Ok(ClaimOutcome::Claimed(Token { mark, session }))
}

/// What a claim finds that did not get the key's lock.
async fn beside_the_holder(
    connection: &mut PgConnection,
    schema: &Schema,
    request: &ClaimRequest,
    level: Level,
) -> Result<ClaimOutcome<Token>, sqlx::Error> {
    let Some(duplicate) = locks::holder(connection, &Locks::of(request)).await? else {
        return Ok(ClaimOutcome::LookAgain);
    };
    // The holder of the lock may have come as late as this claim, and be about to find a record that was committed after our
    // first look. So look again.
    let row = match level {
        Level::ReadCommitted => look(connection, schema, request).await?,
        Level::Strict => look_without_snapshot(connection, schema, request).await?,
    };
    Ok(found(&row)?.unwrap_or(ClaimOutcome::Running(Conflict { duplicate, remaining: None })))
}

async fn look(connection: &mut PgConnection, schema: &Schema, request: &ClaimRequest) -> Result<PgRow, sqlx::Error> {
    sqlx::query(sql::within(schema, sql::LOOK)).bind(request.id.as_bytes()).fetch_one(connection).await
}

/// Looks in another transaction, which the engine then ends.
async fn look_without_snapshot(
    connection: &mut PgConnection,
    schema: &Schema,
    request: &ClaimRequest,
) -> Result<PgRow, sqlx::Error> {
    connection.execute(sqlx::raw_sql(sql::LOOK_WITHOUT_SNAPSHOT)).await?;
    look(connection, schema, request).await
}

/// The record that a look found, completed or in progress.
pub(super) fn found<Token>(row: &PgRow) -> Result<Option<ClaimOutcome<Token>>, sqlx::Error> {
    if !row.try_get::<Option<bool>, _>("present")?.unwrap_or(false) {
        return Ok(None);
    }
    if !column::<_, bool>(row, "expires")? {
        return Err(null("expires_at"));
    }
    let fingerprint = column(row, "fingerprint")?;
    if column(row, "held")? {
        return Ok(Some(ClaimOutcome::InProgress(InProgressRecord {
            fingerprint,
            remaining: milliseconds(column(row, "remaining")?),
        })));
    }
    Ok(Some(ClaimOutcome::Completed(StoredRecord {
        operation: column(row, "operation")?,
        record: Record {
            fingerprint,
            format: column(row, "format")?,
            status: column(row, "status")?,
            headers: column(row, "headers")?,
            body: column::<_, Vec<u8>>(row, "body")?.into(),
        },
    })))
}
