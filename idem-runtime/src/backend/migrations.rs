//! The migrations as constants, for applications that run them with their own tool instead of `Idempotency::migrate`.
//! Run all of them in order and each once; `Idempotency::check` tells whether the version is right.
//!
//! With feature `migrate`, [`Migration::for_sqlx`] makes each one a migration of sqlx. Add them to the application's own, so that one
//! `Migrator` runs all:
//!
//! ```
//! # #[cfg(all(feature = "migrate", feature = "sqlite"))]
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! use idem_runtime::{Idempotency, migrations};
//! use sqlx::{SqlitePool, migrate::Migrator};
//!
//! # let own: Vec<sqlx::migrate::Migration> = vec![];
//! // let own = sqlx::migrate!().migrations.to_vec();
//! let idem = migrations::SQLITE.iter().map(migrations::Migration::for_sqlx);
//! let migrator = Migrator::with_migrations(own.into_iter().chain(idem).collect());
//!
//! let pool = SqlitePool::connect("sqlite::memory:").await?;
//! migrator.run(&pool).await?;
//! Idempotency::builder(pool).build().check().await?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(feature = "postgres")]
use super::Schema;

/// One migration of idem's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migration {
    /// The version for tools that sort by it. A date, so that it lies among versions that sqlx makes.
    pub version: i64,
    /// What it does, in two or three words.
    pub name: &'static str,
    /// Its statements, separated by semicolons. They name the tables without a schema.
    pub sql: &'static str,
}

/// The migrations for PostgreSQL.
#[cfg(feature = "postgres")]
pub const POSTGRES: &[Migration] = &super::postgres::MIGRATIONS;

/// The migrations for SQLite.
#[cfg(feature = "sqlite")]
pub const SQLITE: &[Migration] = &super::sqlite::MIGRATIONS;

impl Migration {
    /// The statements with the schema of [`Builder::schema`](crate::Builder::schema) before the name of each table, for
    /// PostgreSQL. They do not create the schema.
    ///
    /// # Panics
    /// If [`Builder::schema`](crate::Builder::schema) refuses the name.
    #[cfg(feature = "postgres")]
    #[must_use]
    #[track_caller]
    pub fn in_schema(&self, schema: &str) -> String {
        Schema::named(schema).sql(self.sql, '"').as_str().to_owned()
    }

    /// The migration as one of sqlx.
    #[cfg(feature = "migrate")]
    #[must_use]
    pub fn for_sqlx(&self) -> sqlx::migrate::Migration {
        use sqlx::{SqlSafeStr, migrate::MigrationType};
        let outside_a_transaction = false;
        let sql = self.sql.into_sql_str();
        sqlx::migrate::Migration::new(self.version, self.name.into(), MigrationType::Simple, sql, outside_a_transaction)
    }
}
