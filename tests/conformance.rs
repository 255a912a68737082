//! One suite, run on SQLite and on PostgreSQL: what CONTRACT.md promises, over real sockets.
//! The two modules hold what differs between the databases; the topics in `conformance/` are compiled into both.
#![allow(clippy::duplicate_mod, reason = "each topic is compiled once for each database, on purpose")]

mod support;

#[path = "conformance"]
mod sqlite {
    pub use sqlx::{Sqlite as Db, SqliteConnection as Connection};

    pub use crate::support::databases::Sqlite as Database;

    mod answers;
    mod app;
    mod concurrency;
    mod fingerprint;
    mod key;
    mod options;
    mod outcomes;
    mod responses;
    mod scope;

    pub async fn fresh() -> Database {
        crate::support::databases::sqlite()
    }

    pub const PAYMENTS: &str = "CREATE TABLE payments (id INTEGER PRIMARY KEY, account TEXT NOT NULL)";

    /// Makes every record so many seconds older.
    pub const AGE: &str =
        "UPDATE idem_records SET created_at = created_at - $1 * 1000, expires_at = expires_at - $1 * 1000";

    /// The retention of the records, in seconds.
    pub const RETENTION: &str = "SELECT (expires_at - created_at) / 1000 FROM idem_records";

    /// The isolation level of a transaction; there is only one.
    pub const ISOLATION: &str = "SELECT 'sqlite'";

    /// Whether a failed statement aborts its transaction.
    pub const ABORTS: bool = false;
}

#[path = "conformance"]
mod postgres {
    pub use sqlx::{PgConnection as Connection, Postgres as Db};

    pub use crate::support::databases::{Postgres as Database, postgres as fresh};

    mod answers;
    mod app;
    mod concurrency;
    mod fingerprint;
    mod key;
    mod options;
    mod outcomes;
    mod responses;
    mod scope;

    pub const PAYMENTS: &str = "CREATE TABLE payments (id BIGSERIAL PRIMARY KEY, account TEXT NOT NULL)";

    /// Makes every record so many seconds older.
    pub const AGE: &str = "UPDATE idem_records SET created_at = created_at - make_interval(secs => $1::bigint), \
         expires_at = expires_at - make_interval(secs => $1::bigint)";

    /// The retention of the records, in seconds.
    pub const RETENTION: &str = "SELECT round(extract(epoch FROM expires_at - created_at))::bigint FROM idem_records";

    /// The isolation level of a transaction.
    pub const ISOLATION: &str = "SELECT current_setting('transaction_isolation')";

    /// Whether a failed statement aborts its transaction.
    pub const ABORTS: bool = true;
}
