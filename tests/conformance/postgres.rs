//! The suite on PostgreSQL: what differs from the other databases.
//! A topic about PostgreSQL alone is a file in `postgres/`, and is listed here.

pub use idem_runtime::migrations::POSTGRES as MIGRATIONS;
pub use idem_tests::databases::{Postgres as Database, postgres as fresh};
pub use sqlx::{PgConnection as Connection, Postgres as Db};

mod contention;
mod session;
#[path = "topics/mod.rs"]
mod topics;

pub const PAYMENTS: &str = "CREATE TABLE payments (id BIGSERIAL PRIMARY KEY, account TEXT NOT NULL)";

/// Makes every record so many seconds older.
pub const AGE: &str = "UPDATE idem_records SET created_at = created_at - make_interval(secs => $1::bigint), \
     expires_at = expires_at - make_interval(secs => $1::bigint)";

/// Ends every lease, at this very moment.
pub const LAPSE: &str = "UPDATE idem_records SET lease_until = clock_timestamp() WHERE attempt IS NOT NULL";

/// Leaves less than a second of every lease.
pub const UNDER_A_SECOND: &str = "UPDATE idem_records \
    SET lease_until = clock_timestamp() + interval '950 ms' WHERE attempt IS NOT NULL";

/// Leaves half a minute of every lease.
pub const HALF_A_MINUTE: &str = "UPDATE idem_records \
    SET lease_until = clock_timestamp() + interval '30 s' WHERE attempt IS NOT NULL";

/// When the attempt began, in milliseconds since 1970.
pub const BEGAN: &str = "SELECT (extract(epoch FROM created_at) * 1000)::bigint FROM idem_records";

/// Makes every attempt one of a year ago.
pub const BEGAN_LONG_AGO: &str = "UPDATE idem_records SET created_at = created_at - interval '1 year'";

/// What is left of the leases, in milliseconds.
pub const REMAINING: &str = "SELECT (extract(epoch FROM lease_until - clock_timestamp()) * 1000)::bigint \
    FROM idem_records WHERE attempt IS NOT NULL";

/// The retention of the records, in seconds.
pub const RETENTION: &str = "SELECT round(extract(epoch FROM expires_at - created_at))::bigint FROM idem_records";

/// The isolation level of a transaction.
pub const ISOLATION: &str = "SELECT current_setting('transaction_isolation')";

/// Whether a failed statement aborts its transaction.
pub const ABORTS: bool = true;

/// 2500 records that expired long ago.
pub const FILL: &str = "\
    INSERT INTO idem_records \
        (id, operation, fingerprint, format, status, headers, body, created_at, expires_at) \
    SELECT convert_to(lpad(n::text, 32, '0'), 'UTF8'), 'old', '\\x01', 1, 200, '', '', \
           now() - interval '9 days', now() - interval '1 day' \
      FROM generate_series(1, 2500) AS n";

/// Makes the status of every record a text.
pub const NO_NUMBER: &str = "ALTER TABLE idem_records ALTER COLUMN status TYPE text USING 'x'";

/// Drops the constraints that forbid NULL.
pub const NULLABLE: &str = "ALTER TABLE idem_records ALTER operation DROP NOT NULL, ALTER fingerprint DROP NOT NULL, \
    ALTER format DROP NOT NULL, ALTER status DROP NOT NULL, ALTER headers DROP NOT NULL, ALTER body DROP NOT NULL, \
    ALTER expires_at DROP NOT NULL";

/// Makes a column another type.
pub const RETYPE: &str = "ALTER TABLE idem_records ALTER COLUMN body TYPE text USING encode(body, 'hex')";

/// Rows as version 0.1 wrote them.
pub const GOLDEN: &str = "\
    INSERT INTO idem_records \
        (id, operation, fingerprint, format, status, headers, body, created_at, expires_at) \
    VALUES \
    ('\\xd52290c5ec40d7160f740b1ca4801ff064b6044735f098a2cd81a679abd3e649', 'pay', \
     '\\x01ea9c007b7488d7d464e9dbca4749969591aa00bf1c4961ed5e6a6437f94cef14', \
     1, 201, '\\x000000086c6f636174696f6e0000000b2f7061796d656e74732f310000000a7365742d636f6f6b69\
         6500000003613d310000000a7365742d636f6f6b696500000003623d3200000005782d6f64640000\
         0004636166e90000000d63616368652d636f6e74726f6c000000086e6f2d73746f7265', \
     '\\x73746f72656400ff', '2026-01-01Z', '2099-01-01Z'), \
    ('\\x4aa94f360e8ba508572fcefba02e715b05bb242f52dd3f44f38e3c510f656fc0', 'pay', \
     '\\x026984b0f7404df73a04974880b6084dbdbd1422fb0e7bc35686eaff71d9cd21e6', \
     1, 402, '\\x', \
     '\\x', '2026-01-01Z', '2099-01-01Z'), \
    ('\\xbf8e96b8814a18e07b0980ffdee41e52c48cfaa6ab98988ef8b77a2e9559f801', 'here', \
     '\\x018ffe008eb4dbb512ceafb366b3c4cd01e937c1e6e53a4ce5de21dfdbc0926c64', \
     1, 204, '\\x', \
     '\\x', '2026-01-01Z', '2099-01-01Z'), \
    ('\\xe3c605689d70884303ed40f8e69d8dc0cbd4536b3dd8c95212cbd05ba182d004', 'pay', \
     '\\x0521541f5581bd446aa07850109907866836d307209ccf51c772dc908dc26b666e1fd449baca0f04267f4a0323fb66dd7b', \
     3, 201, '\\xfc37e02c0fbe6bec000000086c6f636174696f6e0000000b2f7061796d656e74732f33', \
     '\\x7365616c656400ff', '2026-01-01Z', '2099-01-01Z')";
