//! SQLite: the schema's migrations and its check.
//! A migration that was made is never run again.

use sqlx::{Connection, Executor, SqliteConnection};

use super::sql;
use crate::backend::{error::Error, expect_version};

const MIGRATIONS: [&str; 2] = [
    include_str!("../../../migrations/sqlite/0001_records.sql"),
    include_str!("../../../migrations/sqlite/0002_leases.sql"),
];

pub(super) async fn migrate(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    let mut transaction = connection.begin_with(sql::BEGIN_MIGRATION).await?;
    let made: i64 = sqlx::query_scalar(sql::MIGRATED).fetch_one(&mut *transaction).await?;
    for migration in MIGRATIONS.iter().copied().skip(usize::try_from(made).unwrap_or(0)) {
        transaction.execute(sqlx::raw_sql(migration)).await?;
    }
    transaction.commit().await
}

pub(super) async fn check(connection: &mut SqliteConnection) -> Result<(), Error> {
    let tables: i64 = sqlx::query_scalar(sql::HAS_SCHEMA).fetch_one(&mut *connection).await?;
    let version = if tables == 0 { None } else { sqlx::query_scalar(sql::VERSION).fetch_one(&mut *connection).await? };
    expect_version(version)?;
    let as_made = sqlx::query_scalar(sql::SCHEMA_AS_MADE).fetch_one(connection).await?;
    if as_made { Ok(()) } else { Err(Error::SchemaMissing) }
}
