//! PostgreSQL: an advisory transaction lock claims the key, and one insert at the end writes the record.
//! Nothing is kept in a session, so a pooler in transaction mode may stand in between.

use std::borrow::Cow;

use sqlx::{
    AssertSqlSafe, Connection, Executor, PgConnection, Postgres, Row, SqlSafeStr, SqlStr, Transaction,
    error::DatabaseError,
    postgres::{PgDatabaseError, PgRow, PgSeverity},
};

use super::{
    Backend, Cause, ClaimOutcome, ClaimRequest, Conflict, Fault, InProgressRecord, Migration, OpenClaims, Purpose,
    ReadFirst, WriteOutcome, error::Error, fault::is_conflict, rows::milliseconds,
};
use crate::model::{options::Isolation, record::Record};
use locks::Locks;

mod leases;
mod locks;
mod migrate;
mod sql;

/// The transaction's identifier and the table's, as the claim found them.
#[derive(Debug)]
pub struct Token(String);

impl Backend for Postgres {
    type Token = Token;

    const READ_FIRST: ReadFirst = ReadFirst::Never;

    /// The statement finds the key's lock taken. Whose it is, only a younger snapshot in a transaction tells.
    const OPEN_CLAIMS: OpenClaims = OpenClaims::Unseen;

    async fn read(
        connection: &mut PgConnection,
        request: &ClaimRequest,
    ) -> Result<Option<ClaimOutcome<Token>>, sqlx::Error> {
        let row = sqlx::query(sql::LOOK).bind(request.id.as_bytes()).fetch_one(connection).await?;
        found(&row)
    }

    fn begin(isolation: Option<Isolation>, purpose: Purpose<'_>) -> SqlStr {
        let before = match purpose {
            Purpose::Claim(request) => Locks::of(request).take(),
            Purpose::Complete(holder) => locks::mark(holder),
            Purpose::Unkeyed => String::new(),
        };
        AssertSqlSafe(format!("{}{before}BEGIN; SAVEPOINT idem_claim", level(isolation))).into_sql_str()
    }

    async fn claim(connection: &mut PgConnection, request: &ClaimRequest) -> Result<ClaimOutcome<Token>, sqlx::Error> {
        let row = sqlx::query(sql::LOOK).bind(request.id.as_bytes()).fetch_one(&mut *connection).await?;
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
            let Some(duplicate) = locks::holder(connection, &Locks::of(request)).await? else {
                return Ok(ClaimOutcome::LookAgain);
            };
            // Whoever holds the key now may be as late as we are, and only about to find what was recorded sweep_age our look.
            let row = sqlx::query(sql::LOOK).bind(request.id.as_bytes()).fetch_one(connection).await?;
            return Ok(found(&row)?.unwrap_or(ClaimOutcome::Running(Conflict { duplicate, remaining: None })));
        };
        if row.try_get("strict")? {
            sqlx::query(sql::REACH_PAST_SNAPSHOT).bind(request.id.as_bytes()).execute(connection).await?;
        }
        Ok(ClaimOutcome::Claimed(Token(token)))
    }

    async fn rewind(connection: &mut PgConnection) -> Result<WriteOutcome, sqlx::Error> {
        to_savepoint(connection, sql::REWIND).await
    }

    async fn verify(connection: &mut PgConnection) -> Result<WriteOutcome, sqlx::Error> {
        to_savepoint(connection, sql::VERIFY).await
    }

    async fn record(
        connection: &mut PgConnection,
        token: &Token,
        request: &ClaimRequest,
        record: Record,
    ) -> Result<WriteOutcome, sqlx::Error> {
        let written = sqlx::query(sql::RECORD)
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
            return Ok(WriteOutcome::Written);
        }
        let same = sqlx::query_scalar(sql::SAME_TRANSACTION).bind(&token.0).fetch_one(connection).await?;
        Ok(if same { WriteOutcome::Lost } else { WriteOutcome::TransactionEnded })
    }

    async fn discard(mut transaction: Transaction<'static, Self>) {
        // The response is the end of the session, which is an error; either way no later user of the pool gets the connection.
        let _ended = transaction.execute(sql::TERMINATE).await;
    }

    fn fault(error: &sqlx::Error) -> Fault {
        let Some(database) = error.as_database_error() else { return Fault::Unavailable };
        match database.code().as_deref() {
            _ if is_conflict(database) => Fault::Transient,
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
            _ if is_conflict(database) => Fault::Transient,
            // insufficient resources, object in use, operator intervention, system error
            Some("53" | "55" | "57" | "58") => Fault::Unavailable,
            // A deferred constraint or trigger of the application.
            _ => Fault::Aborted,
        })
    }

    /// An error of PostgreSQL that asks for another run has a standard SQLSTATE.
    fn cause(_: &dyn DatabaseError) -> Cause {
        Cause::Unknown
    }

    async fn prune(connection: &mut PgConnection, limit: i64) -> Result<u64, sqlx::Error> {
        // Under a stricter default of the database two pruners would meet in serialization failures.
        let mut transaction = connection.begin_with(sql::BEGIN_READ_COMMITTED).await?;
        let pruned = sqlx::query(sql::PRUNE).bind(limit).execute(&mut *transaction).await?.rows_affected();
        transaction.commit().await?;
        Ok(pruned)
    }

    async fn migrate(connection: &mut PgConnection) -> Result<Migration, sqlx::Error> {
        migrate::migrate(connection).await
    }

    async fn check(connection: &mut PgConnection) -> Result<(), Error> {
        migrate::check(connection).await
    }
}

async fn to_savepoint(connection: &mut PgConnection, statement: &'static str) -> Result<WriteOutcome, sqlx::Error> {
    match connection.execute(statement).await {
        Ok(_) => Ok(WriteOutcome::Written),
        // no_active_sql_transaction, invalid_savepoint_specification: the savepoint went with its transaction.
        Err(error) if matches!(code(&error).as_deref(), Some("25P01" | "3B001")) => Ok(WriteOutcome::TransactionEnded),
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

/// The SQLSTATE of a database error.
fn code(error: &sqlx::Error) -> Option<Cow<'_, str>> {
    error.as_database_error().and_then(DatabaseError::code)
}
