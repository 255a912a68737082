//! The choice of the database: SQLite by default, PostgreSQL if the URL says so.
//! Opens a pool and creates the example's tables. idem's tables are created by `Idempotency::migrate`.

use std::{str::FromStr as _, time::Duration};

use sqlx::{
    AssertSqlSafe, Connection as _, PgConnection, PgPool, SqlitePool,
    postgres::PgPoolOptions,
    sqlite::{SqliteConnectOptions, SqliteJournalMode},
};

use crate::program::{Failed, Outcome};

/// The aliases of a story that is compiled for SQLite.
pub mod sqlite {
    pub use sqlx::{Sqlite as Db, SqliteConnection as Connection};

    /// An SQL expression: the database's clock, in milliseconds since 1970.
    pub const NOW: &str = "CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)";
}

/// The aliases of a story that is compiled for PostgreSQL.
pub mod postgres {
    pub use sqlx::{PgConnection as Connection, Postgres as Db};

    /// An SQL expression: the database's clock, in milliseconds since 1970.
    pub const NOW: &str = "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)";
}

/// How long a request waits for a busy database. It is shorter than idem's own limit of 10 seconds, after which idem
/// responds with 503.
const BUSY: Duration = Duration::from_secs(5);

/// Two processes can start on one database at the same time. The statements run in one transaction, and the lock lets
/// only one process create tables.
const LOCK: &str = "SELECT pg_advisory_xact_lock(hashtext('idem examples'));";

/// The examples write their tables for SQLite. PostgreSQL names one type differently.
const NUMBER: (&str, &str) = ("INTEGER PRIMARY KEY", "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY");

/// An open database with the example's tables.
#[derive(Debug)]
pub enum Database {
    /// A file, or a database in memory.
    Sqlite(SqlitePool),
    /// A server.
    Postgres(PgPool),
}

impl Database {
    /// Connects to the database of this URL and creates missing tables. A real application runs migrations here.
    pub async fn open(url: &str, tables: &'static str) -> Outcome<Self> {
        let (scheme, _) = url.split_once(':').unwrap_or((url, ""));
        let opened = match scheme {
            "sqlite" => Self::open_sqlite(url, tables).await.map(Self::Sqlite),
            "postgres" | "postgresql" => Self::open_postgres(url, tables).await.map(Self::Postgres),
            // The rest of the URL can hold a password.
            other => {
                return Err(format!("DATABASE_URL must start with sqlite: or postgres:, not with {other:?}").into());
            }
        };
        Ok(opened.map_err(|error| Failed::new("cannot use the database of DATABASE_URL", error))?)
    }

    /// Opens a SQLite file, whatever `DATABASE_URL` says.
    pub async fn open_sqlite(url: &str, tables: &'static str) -> Result<SqlitePool, sqlx::Error> {
        let options = SqliteConnectOptions::from_str(url)?
            .create_if_missing(true)
            // Readers do not wait for the writer. `synchronous` stays FULL: a payment that was reported to the client
            // survives a power failure.
            .journal_mode(SqliteJournalMode::Wal)
            .busy_timeout(BUSY);
        let pool = SqlitePool::connect_with(options).await?;
        sqlx::raw_sql(tables).execute(&pool).await?;
        Ok(pool)
    }

    async fn open_postgres(url: &str, tables: &'static str) -> Result<PgPool, sqlx::Error> {
        // A pool retries until its timeout and then does not say what was wrong. One connection does.
        PgConnection::connect(url).await?.close().await?;
        // sqlx waits 30 seconds by default. That is too long for a client that will receive a 503.
        let pool = PgPoolOptions::new().acquire_timeout(BUSY).connect(url).await?;
        let tables = format!("{LOCK}\n{}", tables.replace(NUMBER.0, NUMBER.1));
        sqlx::raw_sql(AssertSqlSafe(tables)).execute(&pool).await?;
        Ok(pool)
    }
}
