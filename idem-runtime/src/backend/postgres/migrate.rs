//! PostgreSQL: the schema's migrations and its check.
//! A migration that was made is never run again.

use sqlx::{Connection, Executor, PgConnection};

use super::{code, sql};
use crate::backend::{error::Error, expect_version};

const MIGRATIONS: [&str; 2] = [
    include_str!("../../../migrations/postgres/0001_records.sql"),
    include_str!("../../../migrations/postgres/0002_leases.sql"),
];

/// One try. Handlers' open transactions can keep it from the table's lock, and new ones would wait behind it: it gives up
/// soon and lets them run.
pub(super) async fn migrate(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    let mut transaction = connection.begin().await?;
    transaction.execute(sql::MIGRATION_LOCK).await?;
    let made: i32 = sqlx::query_scalar(sql::MIGRATED).fetch_one(&mut *transaction).await?;
    transaction.execute(sql::MIGRATION_LOCK_TIMEOUT).await?;
    for migration in MIGRATIONS.iter().copied().skip(usize::try_from(made).unwrap_or(0)) {
        transaction.execute(sqlx::raw_sql(migration)).await?;
    }
    transaction.commit().await
}

pub(super) async fn check(connection: &mut PgConnection) -> Result<(), Error> {
    let version = match sqlx::query_scalar(sql::VERSION).fetch_one(&mut *connection).await {
        // undefined_table
        Err(error) if code(&error).as_deref() == Some("42P01") => None,
        other => other?,
    };
    expect_version(version)?;
    let as_made = sqlx::query_scalar(sql::SCHEMA_AS_MADE).fetch_one(connection).await?;
    if as_made { Ok(()) } else { Err(Error::SchemaMissing) }
}
