//! PostgreSQL: the schema's migrations.
//! A migration that was made is never run again.

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

use super::{Schema, sql};
use crate::backend::migrations::Migration;

pub(crate) const MIGRATIONS: [Migration; 2] = [
    Migration {
        version: 20_260_101_000_001,
        name: "idem records",
        sql: include_str!("../../../migrations/postgres/0001_records.sql"),
    },
    Migration {
        version: 20_260_101_000_002,
        name: "idem leases",
        sql: include_str!("../../../migrations/postgres/0002_leases.sql"),
    },
];

/// One try. Handlers' open transactions can keep it from the table's lock, and new ones would wait behind it: it gives up
/// soon and lets them run.
pub(super) async fn migrate(connection: &mut PgConnection, schema: &Schema) -> Result<(), sqlx::Error> {
    let mut transaction = connection.begin().await?;
    transaction.execute(sql::MIGRATION_LOCK).await?;
    if let Some(name) = schema.name()
        && !sqlx::query_scalar::<_, bool>(sql::HAS_NAMESPACE).bind(name).fetch_one(&mut *transaction).await?
    {
        // The name needs no escape, see `Schema::named`.
        transaction.execute(sqlx::raw_sql(AssertSqlSafe(format!("CREATE SCHEMA IF NOT EXISTS \"{name}\"")))).await?;
    }
    let made: i32 = sqlx::query_scalar(sql::within(schema, sql::MIGRATED)).fetch_one(&mut *transaction).await?;
    transaction.execute(sql::MIGRATION_LOCK_TIMEOUT).await?;
    for migration in MIGRATIONS.iter().skip(usize::try_from(made).unwrap_or(0)) {
        transaction.execute(sqlx::raw_sql(sql::within(schema, migration.sql))).await?;
    }
    transaction.commit().await
}
