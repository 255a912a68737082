//! SQLite: every statement. Times are integers, milliseconds since 1970.
//! The schema's own files are in `migrations/sqlite`.

use std::sync::LazyLock;

use crate::backend::savepoint::SAVEPOINT;

/// The write lock at once: a transaction that reads first and writes later can find that it may not.
pub(super) static BEGIN: LazyLock<String> = LazyLock::new(|| format!("BEGIN IMMEDIATE; SAVEPOINT {}", *SAVEPOINT));

/// A time in milliseconds since 1970. Rounded: every other millisecond, the product of the doubles is a little too small.
macro_rules! millis {
    ($time:literal) => {
        concat!("CAST(round((julianday(", $time, ") - 2440587.5) * 86400000) AS INTEGER)")
    };
}

/// The database's clock, in milliseconds since 1970.
macro_rules! now {
    () => {
        millis!("'now'")
    };
}

/// A record whose time of expiry is NULL is damaged: it is found, and nothing runs.
macro_rules! look {
    () => {
        concat!(
            "SELECT expires_at IS NOT NULL AS expires, operation, fingerprint, format, status, headers, body, \
                    attempt IS NOT NULL AS held, lease_until - ",
            now!(),
            " AS remaining FROM idem_records WHERE id = ?1 AND (expires_at > ",
            now!(),
            ") IS NOT FALSE"
        )
    };
}

pub(super) const LOOK: &str = look!();

/// Where nothing can be written, the look fails: it begins with a write, of no row, because BEGIN IMMEDIATE succeeds on
/// a file that is read-only.
pub(super) const LOOK_TO_WRITE: &str = concat!("DELETE FROM idem_records WHERE false; ", look!());

pub(super) static REWIND: LazyLock<String> = LazyLock::new(|| format!("ROLLBACK TO {}", *SAVEPOINT));
pub(super) static VERIFY: LazyLock<String> = LazyLock::new(|| format!("RELEASE {}", *SAVEPOINT));

/// The savepoint is released here because only its own transaction has it: after the handler's COMMIT it is gone.
/// What was written is read off the returned row, because SQLite counts changes across the two statements.
pub(super) static RECORD: LazyLock<String> = LazyLock::new(|| format!("RELEASE {}; {INSERT}", *SAVEPOINT));

const INSERT: &str = concat!(
    "\
    INSERT INTO idem_records AS r \
        (id, operation, fingerprint, format, status, headers, body, created_at, expires_at) \
    SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, clock.now, clock.now + ?8 * 1000 \
      FROM (SELECT ",
    now!(),
    " AS now) AS clock \
     WHERE true \
    ON CONFLICT (id) DO UPDATE SET \
        operation = excluded.operation, fingerprint = excluded.fingerprint, format = excluded.format, \
        status = excluded.status, headers = excluded.headers, body = excluded.body, \
        created_at = excluded.created_at, expires_at = excluded.expires_at \
     WHERE r.expires_at <= excluded.created_at \
    RETURNING true"
);

pub(super) const PRUNE: &str = concat!(
    "DELETE FROM idem_records WHERE id IN (SELECT id FROM idem_records WHERE expires_at <= ",
    now!(),
    " ORDER BY expires_at LIMIT ?1)"
);

pub(super) const HAS_SCHEMA: &str = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'idem_schema'";

pub(super) const VERSION: &str = "SELECT max(version) FROM idem_schema";

/// The column types that the guarantees rest on: a key compared as bytes, a body stored as bytes.
pub(super) const SCHEMA_AS_MADE: &str = "\
    SELECT count(*) = 4 FROM pragma_table_info('idem_records') \
     WHERE type = 'BLOB' AND name IN ('id', 'fingerprint', 'headers', 'body')";

/// Compiles only if there is a unique index on `id` alone. Nothing runs.
pub(super) const EXPLAIN_CONFLICT: &str =
    "EXPLAIN INSERT INTO idem_records (id) VALUES (NULL) ON CONFLICT (id) DO NOTHING";

pub(super) const WRITE_NOTHING: &str = "DELETE FROM idem_records WHERE false";
pub(super) const BUSY_TIMEOUT: &str = "PRAGMA busy_timeout";
pub(super) const NO_BUSY_TIMEOUT: &str = "PRAGMA busy_timeout = 0";
pub(super) const SYNCHRONOUS: &str = "PRAGMA synchronous";
pub(super) const JOURNAL_MODE: &str = "PRAGMA journal_mode";

/// Inserts a record in progress, or replaces an expired one.
pub(super) const LEASE: &str = concat!(
    "INSERT INTO idem_records AS r \
        (id, attempt, operation, fingerprint, lease_until, retention, request, \
         format, status, headers, body, created_at, expires_at) \
     SELECT ?1, ?2, ?3, ?4, clock.now + ?5, ?6, ?7, 0, 0, x'', x'', clock.now, 9223372036854775807 \
       FROM (SELECT ",
    now!(),
    " AS now) AS clock \
      WHERE true \
     ON CONFLICT (id) DO UPDATE SET \
         attempt = excluded.attempt, operation = excluded.operation, fingerprint = excluded.fingerprint, \
         lease_until = excluded.lease_until, retention = excluded.retention, request = excluded.request, \
         asked = NULL, last_error = NULL, format = 0, status = 0, headers = x'', body = x'', \
         created_at = excluded.created_at, expires_at = excluded.expires_at \
      WHERE r.expires_at <= excluded.created_at OR r.attempt = excluded.attempt \
     RETURNING true"
);

pub(super) const RENEW: &str =
    concat!("UPDATE idem_records SET lease_until = ", now!(), " + ?3 WHERE id = ?1 AND attempt = ?2");

pub(super) const COMPLETE: &str = concat!(
    "UPDATE idem_records SET format = ?3, status = ?4, headers = ?5, body = ?6, expires_at = ",
    now!(),
    " + retention * 1000, attempt = NULL, lease_until = NULL, last_error = NULL, request = NULL \
      WHERE id = ?1 AND attempt = ?2 RETURNING true"
);

/// The savepoint is released here because only its own transaction has it: after the handler's COMMIT it is gone.
pub(super) static COMPLETE_WITHIN: LazyLock<String> = LazyLock::new(|| format!("RELEASE {}; {COMPLETE}", *SAVEPOINT));

pub(super) const RELEASE: &str = "DELETE FROM idem_records WHERE id = ?1 AND attempt = ?2";

pub(super) const POSTPONE: &str = concat!(
    "UPDATE idem_records SET lease_until = ",
    now!(),
    " + ?3, last_error = ?4, asked = coalesce(?5, asked) WHERE id = ?1 AND attempt = ?2"
);

/// Nodes take one after another: SQLite has one writer.
pub(super) const TAKE_DUE: &str = concat!(
    "UPDATE idem_records SET attempt = ?1, lease_until = ",
    now!(),
    " + ?2, asked = coalesce(asked, 0) + 1 \
      WHERE id = (SELECT id FROM idem_records \
                   WHERE attempt IS NOT NULL AND operation = ?3 AND lease_until <= ",
    now!(),
    " - ?4 AND coalesce(asked, 0) < ?5 ORDER BY lease_until LIMIT 1) \
     RETURNING id, operation, created_at AS started_at, asked - 1 AS tries, last_error, request"
);

pub(super) const TAKE_ONE: &str = concat!(
    "UPDATE idem_records SET attempt = ?1, lease_until = ",
    now!(),
    " + ?2 WHERE id = ?3 AND attempt IS NOT NULL AND (lease_until <= ",
    now!(),
    " OR asked > 0) \
     RETURNING id, operation, created_at AS started_at, coalesce(asked, 0) AS tries, last_error, request"
);

/// Names the index to read: SQLite's planner does not know that few records are in progress.
pub(super) const SURVEY: &str = concat!(
    "SELECT count(*) FILTER (WHERE known AND coalesce(asked, 0) < ?2) AS due, \
            count(*) FILTER (WHERE known AND coalesce(asked, 0) >= ?2) AS gave_up, \
            count(*) FILTER (WHERE NOT known) AS no_reconciler \
       FROM (SELECT asked, operation IN (SELECT value FROM json_each(?1)) AS known \
               FROM idem_records INDEXED BY idem_records_in_progress \
              WHERE attempt IS NOT NULL AND lease_until <= ",
    now!(),
    ")"
);

pub(super) const STALLED: &str = concat!(
    "SELECT id, operation, created_at AS started_at, coalesce(asked, 0) AS tries, last_error \
       FROM idem_records INDEXED BY idem_records_in_progress \
      WHERE attempt IS NOT NULL AND (lease_until <= ",
    now!(),
    " OR asked > 0) ORDER BY created_at LIMIT ?1"
);

/// How many of the migrations have been made.
pub(super) const MIGRATED: &str = "\
    SELECT count(*) FROM sqlite_schema \
     WHERE (type = 'table' AND name = 'idem_records') OR (type = 'index' AND name = 'idem_records_in_progress')";

/// Migrations of several processes run one after the other.
pub(super) const BEGIN_MIGRATION: &str = "BEGIN IMMEDIATE";

#[cfg(test)]
mod tests {
    use sqlx::{Connection, SqliteConnection};

    /// With a clock that loses a millisecond now and then, a lease that is over is not found to be over.
    #[tokio::test]
    async fn no_millisecond_is_lost() {
        let mut connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        let lost: i64 = sqlx::query_scalar(concat!(
            "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 9999) \
             SELECT count(*) FROM n \
              WHERE ",
            millis!("1767225600 + i / 1000, 'unixepoch', printf('+0.%03d seconds', i % 1000)"),
            " <> 1767225600000 + i"
        ))
        .fetch_one(&mut connection)
        .await
        .unwrap();
        assert_eq!(lost, 0);
    }
}
