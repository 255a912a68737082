//! PostgreSQL: an advisory transaction lock claims the key, and one insert at the end writes the record.
//! Nothing is kept in a session, so a pooler in transaction mode may stand in between.

use std::{
    borrow::Cow,
    sync::atomic::{AtomicU64, Ordering},
};

use sqlx::{
    AssertSqlSafe, Connection, Database, Executor, PgConnection, Postgres, Row, SqlSafeStr, SqlStr, Transaction,
    error::DatabaseError,
    postgres::{PgDatabaseError, PgSeverity},
};

use sqlx_core::transaction::TransactionManager;

use super::{
    Backend, Cause, ClaimOutcome, ClaimRequest, Conflict, Durability, Fault, InProgressRecord, OpenClaims, Purpose,
    ReadFirst, Schema, Session, WriteOutcome,
    columns::{column, null},
    error::Error,
    fault::is_conflict,
    rows::milliseconds,
    savepoint::SAVEPOINT,
};
use crate::model::{options::Isolation, record::Record};
use locks::Locks;

mod check;
mod claim;
mod leases;
mod locks;
mod migrate;
mod record;
mod sql;

pub(super) use migrate::MIGRATIONS;

type Manager = <Postgres as Database>::TransactionManager;

/// What the claim found.
#[derive(Debug)]
pub struct Token {
    /// The identifiers of the transaction and of the table.
    mark: String,
    /// The role and the `search_path` that the record needs back, if the handler changes them.
    session: Option<(String, String)>,
}

impl Backend for Postgres {
    type Token = Token;

    const READ_FIRST: ReadFirst = ReadFirst::Never;

    /// The statement finds the key's lock taken. Whose it is, only a younger snapshot in a transaction tells.
    const OPEN_CLAIMS: OpenClaims = OpenClaims::Unseen;

    async fn read(
        connection: &mut PgConnection,
        schema: &Schema,
        request: &ClaimRequest,
    ) -> Result<Option<ClaimOutcome<Token>>, sqlx::Error> {
        let row = sqlx::query(sql::within(schema, sql::LOOK)).bind(request.id.as_bytes()).fetch_one(connection).await?;
        claim::found(&row)
    }

    fn begin(isolation: Option<Isolation>, purpose: Purpose<'_>) -> SqlStr {
        let before = match purpose {
            Purpose::Claim(request) => match request.durability {
                Durability::OfSession => Locks::of(request).take(),
                Durability::Demanded => Locks::of(request).take() + locks::DURABLE,
            },
            Purpose::Complete(holder) => locks::mark(holder),
            Purpose::Unkeyed => String::new(),
        };
        AssertSqlSafe(format!("{}{before}BEGIN; SAVEPOINT {}", level(isolation), *SAVEPOINT)).into_sql_str()
    }

    async fn claim(
        connection: &mut PgConnection,
        schema: &Schema,
        request: &ClaimRequest,
    ) -> Result<ClaimOutcome<Token>, sqlx::Error> {
        claim::claim(connection, schema, request).await
    }

    async fn rewind(connection: &mut PgConnection) -> Result<WriteOutcome, sqlx::Error> {
        to_savepoint(connection, &sql::REWIND).await
    }

    async fn verify(connection: &mut PgConnection) -> Result<WriteOutcome, sqlx::Error> {
        to_savepoint(connection, &sql::VERIFY).await
    }

    async fn record(
        connection: &mut PgConnection,
        schema: &Schema,
        token: &Token,
        request: &ClaimRequest,
        record: Record,
    ) -> Result<WriteOutcome, sqlx::Error> {
        record::record(connection, schema, token, request, record).await
    }

    async fn is_aborted(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
        match in_step(connection, "").await {
            Err(error) if code(&error).as_deref() == Some("25P02") => Ok(true),
            in_step => in_step.map(|()| false),
        }
    }

    async fn forget_plans(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
        connection.clear_cached_statements().await
    }

    async fn abandon(mut transaction: Transaction<'static, Self>) {
        // Dropped at depth 0, the transaction does nothing more.
        let rolled_back = Manager::rollback(&mut transaction).await.is_ok();
        let outermost = Manager::get_transaction_depth(&transaction) == 0;
        if !(rolled_back && outermost && in_step(&mut transaction, "").await.is_ok()) {
            Self::discard(transaction).await;
        }
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

    fn cause(error: &dyn DatabaseError) -> Cause {
        let stale = error.try_downcast_ref::<PgDatabaseError>().is_some_and(is_stale_plan);
        if stale {
            return Cause::StalePlan;
        }
        let code = error.code().unwrap_or_default();
        match code.get(..2) {
            // connection exception, insufficient resources, operator intervention (cancelled, shutting down)
            Some("08" | "53" | "57") => Cause::Passing,
            // read-only transaction, two timeouts, object in use, lock not available, system error, I/O error
            _ if matches!(&*code, "25006" | "25P03" | "25P04" | "55006" | "55P03" | "58000" | "58030") => {
                Cause::Passing
            }
            _ => Cause::Unknown,
        }
    }

    async fn prune(connection: &mut PgConnection, schema: &Schema, limit: i64) -> Result<u64, sqlx::Error> {
        // Under a stricter default of the database two pruners would meet in serialization failures.
        let mut transaction = connection.begin_with(sql::BEGIN_READ_COMMITTED).await?;
        let pruned =
            sqlx::query(sql::within(schema, sql::PRUNE)).bind(limit).execute(&mut *transaction).await?.rows_affected();
        transaction.commit().await?;
        Ok(pruned)
    }

    async fn migrate(connection: &mut PgConnection, schema: &Schema) -> Result<(), sqlx::Error> {
        migrate::migrate(connection, schema).await
    }

    fn is_locked(error: &sqlx::Error) -> bool {
        // lock_not_available
        code(error).as_deref() == Some("55P03")
    }

    async fn check(connection: &mut PgConnection, schema: &Schema) -> Result<(), Error> {
        check::check(connection, schema).await
    }
}

/// Runs a statement, and proves that the connection is in step: the message asks for a number that no other one asks for.
/// A COPY that a body dropped half-way shifts all responses by one.
async fn in_step(connection: &mut PgConnection, statement: &str) -> Result<(), sqlx::Error> {
    static NUMBERS: AtomicU64 = AtomicU64::new(0);
    let number = NUMBERS.fetch_add(1, Ordering::Relaxed).to_string();
    let message = format!("{statement}SELECT 'idem {number}'");
    let rows = connection.fetch_all(sqlx::raw_sql(AssertSqlSafe(message))).await?;
    let got = rows.first().map(|row| row.try_get::<&str, _>(0)).transpose()?;
    if got.and_then(|got| got.strip_prefix("idem ")) == Some(&number) {
        return Ok(());
    }
    Err(sqlx::Error::Protocol("the response is to another statement".into()))
}

async fn to_savepoint(connection: &mut PgConnection, statement: &str) -> Result<WriteOutcome, sqlx::Error> {
    match in_step(connection, statement).await {
        Ok(()) => Ok(WriteOutcome::Written),
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

/// Whether a prepared statement was refused because the schema has changed since ("cached plan must not change result type",
/// known by its routine, since its SQLSTATE has other uses), or because the server no longer has it.
fn is_stale_plan(error: &PgDatabaseError) -> bool {
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
