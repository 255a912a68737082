//! PostgreSQL: the schema's migrations.
//! A migration that was made is never run again.

use sqlx::{Connection, Executor, PgConnection};

use super::sql;

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
