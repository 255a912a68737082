//! A fresh database for each test: PostgreSQL on the server of `IDEM_TEST_POSTGRES`, SQLite in a file or in memory.
//! Dropping the value drops the database, with whoever is still connected.

use std::{env, str::FromStr, thread, time::Duration};

use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection, Executor, PgPool, SqlitePool,
    postgres::{PgConnectOptions, PgConnection, PgPoolOptions, PgSslMode},
    sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePoolOptions},
};
use tempfile::TempDir;

use crate::{soon, tally, unique};

/// A PostgreSQL database of one test's own.
pub struct Postgres {
    name: String,
    server: PgConnectOptions,
}

/// Creates a PostgreSQL database.
///
/// # Panics
/// If `IDEM_TEST_POSTGRES` is not set: such a test fails, it is never skipped.
pub async fn postgres() -> Postgres {
    let url = env::var("IDEM_TEST_POSTGRES").unwrap_or_else(|_| {
        panic!("this test needs a PostgreSQL server: run tests/run, or set IDEM_TEST_POSTGRES to a postgres:// URL")
    });
    // The proxy and the statement log need the plain protocol.
    let server = PgConnectOptions::from_str(&url).expect("IDEM_TEST_POSTGRES as a URL").ssl_mode(PgSslMode::Disable);
    let database = Postgres { name: format!("idem_test_{}", unique()), server };
    // template0, since nobody can be connected to it, which would make this fail.
    database.on_server(&format!("CREATE DATABASE {} TEMPLATE template0", database.name)).await;
    tally::ran("postgres", &tally::this_test());
    database
}

impl Postgres {
    /// The database's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How to connect; change it and give it to [`pool_with`](Self::pool_with).
    pub fn options(&self) -> PgConnectOptions {
        self.server.clone().database(&self.name)
    }

    /// The same as a URL, for another process.
    pub fn url(&self) -> String {
        self.options().to_url_lossy().into()
    }

    /// A pool of at most so many connections.
    pub async fn pool(&self, size: u32) -> PgPool {
        self.pool_with(size, self.options()).await
    }

    /// A pool with options of one's own: through a proxy, with an application name, as another role.
    pub async fn pool_with(&self, size: u32, options: PgConnectOptions) -> PgPool {
        let pool = PgPoolOptions::new().max_connections(size).acquire_timeout(Duration::from_secs(10));
        pool.connect_with(options).await.expect("a pool on the test's database")
    }

    /// A single connection, outside every pool.
    pub async fn connect(&self) -> PgConnection {
        PgConnection::connect_with(&self.options()).await.expect("a connection to the test's database")
    }

    /// Sets what new connections start with, such as `default_transaction_isolation`.
    pub async fn set(&self, setting: &str, value: &str) {
        self.on_server(&format!("ALTER DATABASE {} SET {setting} = '{value}'", self.name)).await;
    }

    /// Ends every connection to this database from the server's side, as a failover does.
    pub async fn end_all_connections(&self) {
        self.end_connections("true").await;
    }

    /// Ends the connections to this database for which a condition on `pg_stat_activity` holds. Returns once they are gone.
    pub async fn end_connections(&self, condition: &str) {
        let mut server = self.connect_to_server().await;
        let end = format!(
            "SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{}' AND ({condition})",
            self.name
        );
        let ended: Vec<(i32, bool)> =
            sqlx::query_as(AssertSqlSafe(end)).fetch_all(&mut server).await.expect("a superuser's connection");
        let pids: Vec<i32> = ended.into_iter().map(|(pid, _)| pid).collect();
        // `pg_terminate_backend` itself can wait only from PostgreSQL 14 on.
        let some_are_left = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = ANY($1))";
        let gone = async {
            while sqlx::query_scalar(some_are_left)
                .bind(&pids)
                .fetch_one(&mut server)
                .await
                .expect("an open connection")
            {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        soon("the end of connections", gone).await;
        server.close().await.expect("a clean end");
    }

    /// Waits until no session of this database is in a transaction: what a dropped one has begun is rolled back, and its locks
    /// are free. A rollback is sent after the drop, by another task.
    pub async fn no_transaction(&self) {
        let mut connection = self.connect().await;
        let some_are_left = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() \
            AND backend_type = 'client backend' AND xact_start IS NOT NULL AND pid <> pg_backend_pid())";
        let ended = async {
            while sqlx::query_scalar(some_are_left).fetch_one(&mut connection).await.expect("an open connection") {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        soon("the end of transactions", ended).await;
        connection.close().await.expect("a clean end");
    }

    /// Runs a statement on the server's own database, as its superuser.
    pub async fn on_server(&self, sql: &str) {
        let mut server = self.connect_to_server().await;
        server.execute(AssertSqlSafe(sql)).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        server.close().await.expect("a clean end");
    }

    /// A connection to the server's own database, as its superuser.
    pub async fn connect_to_server(&self) -> PgConnection {
        PgConnection::connect_with(&self.server).await.expect("a connection to the server of IDEM_TEST_POSTGRES")
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let sql = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        let server = self.server.clone();
        // Drop cannot await, and the test's runtime may be single-threaded: a thread and a runtime of its own.
        // Best effort: a test that failed must show its own panic.
        let dropping = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
            runtime.block_on(async {
                let mut server = PgConnection::connect_with(&server).await.ok()?;
                server.execute(AssertSqlSafe(sql)).await.ok()
            })
        });
        let _ = dropping.join();
    }
}

/// A SQLite database in a file of one test's own, in WAL mode.
pub struct Sqlite {
    folder: TempDir,
}

/// Creates a folder for a SQLite file; the first connection creates the file.
pub fn sqlite() -> Sqlite {
    Sqlite { folder: tempfile::Builder::new().prefix("idem-test-").tempdir().expect("a temporary folder") }
}

impl Sqlite {
    /// How to connect; change it and give it to [`pool_with`](Self::pool_with).
    pub fn options(&self) -> SqliteConnectOptions {
        let file = SqliteConnectOptions::new().filename(self.folder.path().join("test.db"));
        file.create_if_missing(true).journal_mode(SqliteJournalMode::Wal)
    }

    /// The file as a URL, for another process.
    pub fn url(&self) -> String {
        format!("sqlite://{}?mode=rwc", self.folder.path().join("test.db").display())
    }

    /// Waits until nobody writes: what a dropped transaction has begun is rolled back. A rollback comes after the drop, in
    /// another thread.
    pub async fn no_transaction(&self) {
        let options = self.options().busy_timeout(Duration::from_secs(30));
        let mut connection = SqliteConnection::connect_with(&options).await.expect("a connection to the test's file");
        connection.execute("BEGIN IMMEDIATE; ROLLBACK").await.expect("the file's one writer to be free");
        connection.close().await.expect("a clean end");
    }

    /// A pool of at most so many connections.
    pub async fn pool(&self, size: u32) -> SqlitePool {
        self.pool_with(size, self.options()).await
    }

    /// A pool with options of one's own: another journal mode or busy timeout.
    pub async fn pool_with(&self, size: u32, options: SqliteConnectOptions) -> SqlitePool {
        let pool = SqlitePoolOptions::new().max_connections(size).acquire_timeout(Duration::from_secs(10));
        pool.connect_with(options).await.expect("a pool on the test's file")
    }
}

/// SQLite in memory. One connection that lives as long as the pool, since each connection would be its own database.
pub async fn sqlite_in_memory() -> SqlitePool {
    let pool = SqlitePoolOptions::new().max_connections(1).idle_timeout(None).max_lifetime(None);
    let options = SqliteConnectOptions::from_str("sqlite::memory:").expect("a URL");
    pool.connect_with(options).await.expect("a pool in memory")
}
