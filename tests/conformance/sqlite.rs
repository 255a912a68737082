//! The suite on SQLite: what differs from the other databases.
//! A topic about SQLite alone is a file in `sqlite/`, and is listed here.

pub use idem_runtime::migrations::SQLITE as MIGRATIONS;
pub use idem_tests::databases::Sqlite as Database;
pub use sqlx::{Sqlite as Db, SqliteConnection as Connection};

#[path = "topics/mod.rs"]
mod topics;
mod writers;

pub async fn fresh() -> Database {
    idem_tests::databases::sqlite()
}

pub const PAYMENTS: &str = "CREATE TABLE payments (id INTEGER PRIMARY KEY, account TEXT NOT NULL)";

/// Makes every record so many seconds older.
pub const AGE: &str =
    "UPDATE idem_records SET created_at = created_at - $1 * 1000, expires_at = expires_at - $1 * 1000";

/// Ends every lease, at this very moment.
pub const LAPSE: &str = "UPDATE idem_records \
    SET lease_until = CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) WHERE attempt IS NOT NULL";

/// Leaves less than a second of every lease.
pub const UNDER_A_SECOND: &str = "UPDATE idem_records \
    SET lease_until = CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) + 950 WHERE attempt IS NOT NULL";

/// Leaves half a minute of every lease.
pub const HALF_A_MINUTE: &str = "UPDATE idem_records \
    SET lease_until = CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) + 30000 WHERE attempt IS NOT NULL";

/// When the attempt began, in milliseconds since 1970.
pub const BEGAN: &str = "SELECT created_at FROM idem_records";

/// Makes every attempt one of a year ago.
pub const BEGAN_LONG_AGO: &str = "UPDATE idem_records SET created_at = created_at - 31536000000";

/// What is left of the leases, in milliseconds.
pub const REMAINING: &str = "SELECT lease_until - CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) \
    FROM idem_records WHERE attempt IS NOT NULL";

/// The retention of the records, in seconds.
pub const RETENTION: &str = "SELECT (expires_at - created_at) / 1000 FROM idem_records";

/// The isolation level of a transaction; there is only one.
pub const ISOLATION: &str = "SELECT 'sqlite'";

/// Whether a failed statement aborts its transaction.
pub const ABORTS: bool = false;

/// 2500 records that expired long ago.
pub const FILL: &str = "\
    WITH RECURSIVE series (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM series WHERE n < 2500) \
    INSERT INTO idem_records \
        (id, operation, fingerprint, format, status, headers, body, created_at, expires_at) \
    SELECT CAST(printf('%032d', n) AS BLOB), 'old', X'01', 1, 200, X'', X'', 0, 1 FROM series";

/// Makes the status of every record a text.
pub const NO_NUMBER: &str = "UPDATE idem_records SET status = 'x'";

/// Drops the constraints that forbid NULL.
pub const NULLABLE: &str = "ALTER TABLE idem_records RENAME TO made; CREATE TABLE idem_records (id BLOB PRIMARY KEY, \
    operation TEXT, fingerprint BLOB, format INTEGER, status INTEGER, headers BLOB, body BLOB, created_at INTEGER, \
    expires_at INTEGER, attempt BLOB, lease_until INTEGER, retention INTEGER, asked INTEGER, last_error TEXT, \
    request BLOB); INSERT INTO idem_records SELECT * FROM made; DROP TABLE made";

/// A table whose columns have other types.
pub const RETYPE: &str = "DROP TABLE idem_records; CREATE TABLE idem_records (id TEXT PRIMARY KEY, \
    operation TEXT, fingerprint BLOB, format INTEGER, status INTEGER, headers BLOB, body TEXT, \
    created_at INTEGER, expires_at INTEGER)";

/// Rows as version 0.1 wrote them.
pub const GOLDEN: &str = "\
    INSERT INTO idem_records \
        (id, operation, fingerprint, format, status, headers, body, created_at, expires_at) \
    VALUES \
    (X'D52290C5EC40D7160F740B1CA4801FF064B6044735F098A2CD81A679ABD3E649', 'pay', \
     X'01EA9C007B7488D7D464E9DBCA4749969591AA00BF1C4961ED5E6A6437F94CEF14', \
     1, 201, X'000000086c6f636174696f6e0000000b2f7061796d656e74732f310000000a7365742d636f6f6b69\
         6500000003613d310000000a7365742d636f6f6b696500000003623d3200000005782d6f64640000\
         0004636166e90000000d63616368652d636f6e74726f6c000000086e6f2d73746f7265', \
     X'73746F72656400FF', 1767225600000, 4070908800000), \
    (X'4AA94F360E8BA508572FCEFBA02E715B05BB242F52DD3F44F38E3C510F656FC0', 'pay', \
     X'026984B0F7404DF73A04974880B6084DBDBD1422FB0E7BC35686EAFF71D9CD21E6', \
     1, 402, X'', \
     X'', 1767225600000, 4070908800000), \
    (X'BF8E96B8814A18E07B0980FFDEE41E52C48CFAA6AB98988EF8B77A2E9559F801', 'here', \
     X'018FFE008EB4DBB512CEAFB366B3C4CD01E937C1E6E53A4CE5DE21DFDBC0926C64', \
     1, 204, X'', \
     X'', 1767225600000, 4070908800000), \
    (X'E3C605689D70884303ED40F8E69D8DC0CBD4536B3DD8C95212CBD05BA182D004', 'pay', \
     X'0521541F5581BD446AA07850109907866836D307209CCF51C772DC908DC26B666E1FD449BACA0F04267F4A0323FB66DD7B', \
     3, 201, X'FC37E02C0FBE6BEC000000086C6F636174696F6E0000000B2F7061796D656E74732F33', \
     X'7365616C656400FF', 1767225600000, 4070908800000)";
