//! PostgreSQL: the record of a claim, written with the role and the `search_path` that the handler left, or with the claim's.
//! Either may hide the table. Then nothing is written, and the outcome says so.

use sqlx::{PgConnection, Row, postgres::PgRow};

use super::{ClaimRequest, Schema, Token, WriteOutcome, code, sql};
use crate::model::record::Record;

/// Writes the record, behind the claim's own role and path if the token has them.
pub(super) async fn record(
    connection: &mut PgConnection,
    schema: &Schema,
    token: &Token,
    request: &ClaimRequest,
    record: Record,
) -> Result<WriteOutcome, sqlx::Error> {
    let left = match &token.session {
        None => None,
        Some((role, path)) => {
            let restore = sqlx::query(sql::RESTORE_SESSION).bind(role).bind(path);
            Some(session(&restore.fetch_one(&mut *connection).await?)?)
        }
    };
    let outcome = write(connection, schema, token, request, record).await?;
    if let (WriteOutcome::TableHidden, Some((role, path))) = (outcome, left) {
        tracing::error!(
            operation = request.operation,
            role,
            search_path = path,
            "the handler's role or `search_path` hides `idem_records`, and could not be undone"
        );
    }
    Ok(outcome)
}

async fn write(
    connection: &mut PgConnection,
    schema: &Schema,
    token: &Token,
    request: &ClaimRequest,
    record: Record,
) -> Result<WriteOutcome, sqlx::Error> {
    let written = sqlx::query(sql::within(schema, sql::RECORD))
        .bind(request.id.as_bytes())
        .bind(request.operation)
        .bind(record.fingerprint)
        .bind(record.format)
        .bind(record.status)
        .bind(record.headers)
        .bind(&record.body[..])
        .bind(f64::from(request.retention.as_secs()))
        .bind(&token.mark)
        .fetch_optional(&mut *connection)
        .await;
    match written {
        // The token comes back: no other statement's response can be taken for this one's.
        Ok(Some(row)) if row.try_get::<&str, _>(0)? == token.mark => Ok(WriteOutcome::Written),
        Ok(Some(_)) => Ok(WriteOutcome::TransactionEnded),
        // The claim has found the table and may write it. Insufficient privilege, undefined table: the handler has changed that.
        Err(error) if matches!(code(&error).as_deref(), Some("42501" | "42P01")) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "the handler's session hides `idem_records`");
            Ok(WriteOutcome::TableHidden)
        }
        Err(error) => Err(error),
        Ok(None) => {
            let why = sqlx::query(sql::within(schema, sql::WHY_NOT)).bind(&token.mark).fetch_one(connection).await?;
            Ok(match (why.try_get("same_transaction")?, why.try_get("same_table")?) {
                (true, true) => WriteOutcome::Lost,
                (true, false) => WriteOutcome::TableHidden,
                (false, _) => WriteOutcome::TransactionEnded,
            })
        }
    }
}

/// The role and the `search_path` in a row.
pub(super) fn session(row: &PgRow) -> Result<(String, String), sqlx::Error> {
    Ok((row.try_get("role")?, row.try_get("search_path")?))
}
