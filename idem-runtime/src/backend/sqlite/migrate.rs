//! SQLite: the schema's migrations.
//! A migration that was made is never run again.

use sqlx::{Connection, Executor, SqliteConnection};

use super::sql;
use crate::backend::migrations::Migration;

pub(crate) const MIGRATIONS: [Migration; 2] = [
    Migration {
        version: 20_260_101_000_001,
        name: "idem records",
        sql: include_str!("../../../migrations/sqlite/0001_records.sql"),
    },
    Migration {
        version: 20_260_101_000_002,
        name: "idem leases",
        sql: include_str!("../../../migrations/sqlite/0002_leases.sql"),
    },
];

pub(super) async fn migrate(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    let mut transaction = connection.begin_with(sql::BEGIN_MIGRATION).await?;
    let made: i64 = sqlx::query_scalar(sql::MIGRATED).fetch_one(&mut *transaction).await?;
    for migration in MIGRATIONS.iter().skip(usize::try_from(made).unwrap_or(0)) {
        transaction.execute(sqlx::raw_sql(migration.sql)).await?;
    }
    transaction.commit().await
}
