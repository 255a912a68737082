//! PostgreSQL: every statement that is constant.
//! What is formatted for one transaction is in `locks`; the schema's own files are in `migrations/postgres`.

use std::sync::LazyLock;

use sqlx::SqlStr;

use crate::backend::{Schema, savepoint::SAVEPOINT};

/// A statement that names the tables in their schema.
pub(super) fn within(schema: &Schema, statement: &'static str) -> SqlStr {
    schema.sql(statement, '"')
}

/// A separate statement after the locks: its snapshot is younger than the locks, so it cannot miss a record that was
/// committed just before the key's lock was free. A record whose time of expiry is NULL is damaged: it is found, and nothing runs.
///
/// Under a stricter level than READ COMMITTED it does not read the table: the snapshot is older than the locks, and what is read
/// of an index page would conflict with every other key that writes to the page.
pub(super) const LOOK: &str = "\
    SELECT r.operation, r.fingerprint, r.format, r.status, r.headers, r.body, r.attempt IS NOT NULL AS held, \
           (extract(epoch FROM r.lease_until - clock_timestamp()) * 1000)::bigint AS remaining, \
           r.id IS NOT NULL AS present, r.expires_at IS NOT NULL AS expires, \
           pg_current_xact_id_if_assigned()::text || ' ' || 'idem_records'::regclass::oid::text AS token, \
           current_setting('transaction_read_only') = 'on' AS read_only, \
           current_setting('transaction_isolation') <> 'read committed' AS strict, \
           has_table_privilege('idem_records'::regclass, 'INSERT') \
               AND has_table_privilege('idem_records'::regclass, 'UPDATE') AS permitted \
      FROM (VALUES (1)) AS always \
      LEFT JOIN (SELECT * FROM idem_records \
                  WHERE id = $1 AND (expires_at > clock_timestamp()) IS NOT FALSE \
                    AND current_setting('transaction_isolation') = 'read committed') AS r ON true";

/// The claim under a stricter level: an insert, which reads nothing that another key writes, or an expired record's end. A record
/// that the snapshot does not have makes it a serialization failure, before the body. No row: there is a record.
pub(super) const TAKE_PLACE: &str = "\
    INSERT INTO idem_records AS r (id, operation, fingerprint, format, status, headers, body, created_at, expires_at) \
    VALUES ($1, '', '', 0, 0, '', '', '-infinity', '-infinity') \
    ON CONFLICT (id) DO UPDATE SET expires_at = '-infinity' WHERE r.expires_at <= clock_timestamp() \
    RETURNING true";

/// Gives up a snapshot that is too old to tell, for one of now.
pub(super) const LOOK_WITHOUT_SNAPSHOT: &str = "ROLLBACK; BEGIN ISOLATION LEVEL READ COMMITTED";

/// Whether the holder of the key lock (`$1`) has one of the request locks (`$2`) too; no row if nobody holds the key.
/// One scan of `pg_locks`, because two would not be of one instant.
pub(super) const HOLDER: &str = "\
    SELECT bool_or(l.number = ANY ($2)) \
      FROM (SELECT pid, mode, (classid::bigint << 32) | objid::bigint AS number \
              FROM pg_locks \
             WHERE locktype = 'advisory' AND granted AND objsubid = 1 \
               AND database = (SELECT oid FROM pg_database WHERE datname = current_database())) AS l \
     WHERE l.number = $1 OR l.number = ANY ($2) \
     GROUP BY l.pid \
    HAVING bool_or(l.number = $1 AND l.mode = 'ExclusiveLock')";

pub(super) static REWIND: LazyLock<String> = LazyLock::new(|| format!("ROLLBACK TO SAVEPOINT {}; ", *SAVEPOINT));
pub(super) static VERIFY: LazyLock<String> = LazyLock::new(|| format!("RELEASE SAVEPOINT {}; ", *SAVEPOINT));

/// Inserts, or replaces an expired record; writes nothing if the transaction or the table is not the claim's (`$9`): the
/// handler may have ended the one, or changed the `search_path` that names the other.
pub(super) const RECORD: &str = "\
    INSERT INTO idem_records AS r \
        (id, operation, fingerprint, format, status, headers, body, created_at, expires_at) \
    SELECT $1, $2, $3, $4, $5, $6, $7, clock_timestamp(), clock_timestamp() + make_interval(secs => $8) \
     WHERE pg_current_xact_id()::text || ' ' || 'idem_records'::regclass::oid::text = $9 \
    ON CONFLICT (id) DO UPDATE SET \
        operation = excluded.operation, fingerprint = excluded.fingerprint, format = excluded.format, \
        status = excluded.status, headers = excluded.headers, body = excluded.body, \
        created_at = excluded.created_at, expires_at = excluded.expires_at \
     WHERE r.expires_at <= clock_timestamp() \
    RETURNING $9";

/// Why a record was not written: whether the transaction is the claim's, and whether the table is.
pub(super) const WHY_NOT: &str = "\
    SELECT coalesce(pg_current_xact_id_if_assigned()::text = split_part($1, ' ', 1), false) AS same_transaction, \
           'idem_records'::regclass::oid::text = split_part($1, ' ', 2) AS same_table";

/// The role and the path of a session.
pub(super) const SESSION: &str =
    "SELECT current_setting('role') AS role, current_setting('search_path') AS search_path";

/// Sets both for the rest of the transaction, and returns what they were before.
pub(super) const RESTORE_SESSION: &str = "\
    SELECT current_setting('role') AS role, current_setting('search_path') AS search_path, \
           set_config('role', $1, true), set_config('search_path', $2, true)";

/// The same in a completing transaction, whose mark keeps both. In any other nothing is set.
pub(super) const RESTORE_MARKED_SESSION: &str = "\
    SELECT set_config('role', current_setting('idem.role'), true), \
           set_config('search_path', current_setting('idem.search_path'), true) \
     WHERE current_setting('idem.attempt', true) <> ''";

/// Ends our own session on the server, so that the pool finds it closed and does not hand it out again. Rolls back first, since
/// an aborted transaction would refuse the rest.
pub(super) const TERMINATE: &str = "ROLLBACK; SELECT pg_terminate_backend(pg_backend_pid())";

/// For statements that must not meet in serialization failures, whatever the database's default isolation level.
pub(super) const BEGIN_READ_COMMITTED: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// Rows that another pruner or a new record has locked are left to it. The statement's own time, unlike the clock's, is one for
/// all rows, so the index gives the expired ones and nothing else is looked at.
pub(super) const PRUNE: &str = "\
    DELETE FROM idem_records WHERE id = ANY (ARRAY( \
        SELECT id FROM idem_records WHERE expires_at <= statement_timestamp() \
         ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED))";

pub(super) const VERSION: &str = "SELECT max(version) FROM idem_schema";

/// The column types that the guarantees rest on: a key compared as bytes, a body stored as bytes.
pub(super) const SCHEMA_AS_MADE: &str = "\
    SELECT count(*) = 4 FROM pg_attribute \
     WHERE attrelid = to_regclass('idem_records') AND atttypid = 'bytea'::regtype \
       AND attname IN ('id', 'fingerprint', 'headers', 'body')";

/// The rights that every request needs and the role does not have; NULL if it has all of them.
pub(super) const MISSING_RIGHTS: &str = "\
    SELECT string_agg(name, ', ') || ' on `idem_records`' FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE']) AS name \
     WHERE NOT has_table_privilege(to_regclass('idem_records'), name)";

/// Settings that are allowed, and that an operator should know of.
pub(super) const SETTINGS: &str = "\
    SELECT current_setting('synchronous_commit') = 'off', has_table_privilege('idem_records', 'DELETE'), row_security_active('idem_records')";

/// Makes the commit of the statement around it wait for the disk: the setting is read at the commit.
macro_rules! durable {
    () => {
        "CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END"
    };
}

/// Reads the record. If it is missing or expired, inserts one in progress. As in a claim, the request locks are taken
/// before the key's, so that a claim that finds the key's lock taken can identify the request that holds it. If there is
/// a record, no lock is taken. The insert also sees what was committed after the snapshot of the other parts. Under a stricter
/// level nothing is read, as in `LOOK`.
pub(super) const LEASE: &str = concat!(
    "\
    WITH held AS MATERIALIZED ( \
        SELECT true AS present, expires_at IS NOT NULL AS expires, \
               operation, fingerprint, format, status, headers, body, attempt IS NOT NULL AS held, \
               (extract(epoch FROM lease_until - clock_timestamp()) * 1000)::bigint AS remaining \
          FROM idem_records \
         WHERE id = $1 AND (expires_at > clock_timestamp()) IS NOT FALSE AND attempt IS DISTINCT FROM $2 \
           AND current_setting('transaction_isolation') = 'read committed'), \
    locks AS MATERIALIZED ( \
        SELECT pg_advisory_xact_lock_shared($8), pg_advisory_xact_lock_shared($9), \
               pg_try_advisory_xact_lock($10) AS taken, ",
    durable!(),
    " \
         WHERE NOT EXISTS (SELECT FROM held)), \
    leased AS ( \
        INSERT INTO idem_records AS r \
            (id, attempt, operation, fingerprint, lease_until, retention, request, \
             format, status, headers, body, created_at, expires_at) \
        SELECT $1, $2, $3, $4, clock_timestamp() + make_interval(secs => $5), $6, $7, \
               0, 0, '', '', clock_timestamp(), 'infinity' \
          FROM locks WHERE locks.taken \
        ON CONFLICT (id) DO UPDATE SET \
            attempt = excluded.attempt, operation = excluded.operation, fingerprint = excluded.fingerprint, \
            lease_until = excluded.lease_until, retention = excluded.retention, request = excluded.request, \
            asked = NULL, last_error = NULL, format = 0, status = 0, headers = '', body = '', \
            created_at = excluded.created_at, expires_at = 'infinity' \
         WHERE r.expires_at <= clock_timestamp() OR r.attempt = excluded.attempt \
        RETURNING true) \
    SELECT EXISTS (SELECT FROM leased) AS leased, held.* \
      FROM (VALUES (1)) AS always LEFT JOIN held ON true"
);

pub(super) const RENEW: &str = "\
    UPDATE idem_records SET lease_until = clock_timestamp() + make_interval(secs => $3) WHERE id = $1 AND attempt = $2";

macro_rules! complete {
    ($demand:literal) => {
        concat!(
            "UPDATE idem_records SET format = $3, status = $4, headers = $5, body = $6, \
                    expires_at = clock_timestamp() + make_interval(secs => retention), \
                    attempt = NULL, lease_until = NULL, last_error = NULL, request = NULL \
               FROM (SELECT ",
            durable!(),
            ") AS durable \
              WHERE id = $1 AND attempt = $2",
            $demand
        )
    };
}

pub(super) const COMPLETE: &str = complete!("");

/// In the transaction that was opened for it, which alone has the mark: the handler's own COMMIT ends that too.
pub(super) const COMPLETE_WITHIN: &str = complete!(" AND current_setting('idem.attempt', true) = encode($2, 'hex')");

pub(super) const MARKED: &str = "SELECT current_setting('idem.attempt', true) IS NOT DISTINCT FROM encode($1, 'hex')";

pub(super) const RELEASE: &str = "DELETE FROM idem_records WHERE id = $1 AND attempt = $2";

pub(super) const POSTPONE: &str = "\
    UPDATE idem_records SET lease_until = clock_timestamp() + make_interval(secs => $3), last_error = $4, asked = coalesce($5, asked) \
     WHERE id = $1 AND attempt = $2";

/// What another node is taking at this moment is left to it. The statement's own time, unlike the clock's, is one for all rows,
/// so the index gives those before it and no live attempt is looked at.
pub(super) const TAKE_DUE: &str = "\
    UPDATE idem_records \
       SET attempt = $1, lease_until = clock_timestamp() + make_interval(secs => $2), asked = coalesce(asked, 0) + 1 \
     WHERE id = (SELECT id FROM idem_records \
                  WHERE attempt IS NOT NULL AND operation = $3 \
                    AND lease_until <= statement_timestamp() - make_interval(secs => $4) AND coalesce(asked, 0) < $5 \
                  ORDER BY lease_until LIMIT 1 FOR UPDATE SKIP LOCKED) \
    RETURNING id, operation, (extract(epoch FROM created_at) * 1000)::bigint AS started_at, asked - 1 AS tries, \
              last_error, request";

pub(super) const TAKE_ONE: &str = "\
    UPDATE idem_records \
       SET attempt = $1, lease_until = clock_timestamp() + make_interval(secs => $2) \
     WHERE id = $3 AND attempt IS NOT NULL AND (lease_until <= clock_timestamp() OR asked > 0) \
    RETURNING id, operation, (extract(epoch FROM created_at) * 1000)::bigint AS started_at, coalesce(asked, 0) AS tries, \
              last_error, request";

pub(super) const SURVEY: &str = "\
    SELECT count(*) FILTER (WHERE operation = ANY ($1) AND coalesce(asked, 0) < $2) AS due, \
           count(*) FILTER (WHERE operation = ANY ($1) AND coalesce(asked, 0) >= $2) AS gave_up, \
           count(*) FILTER (WHERE operation <> ALL ($1)) AS no_reconciler \
      FROM idem_records WHERE attempt IS NOT NULL AND lease_until <= statement_timestamp()";

pub(super) const STALLED: &str = "\
    SELECT id, operation, (extract(epoch FROM created_at) * 1000)::bigint AS started_at, coalesce(asked, 0) AS tries, \
           last_error \
      FROM idem_records \
     WHERE attempt IS NOT NULL AND (lease_until <= clock_timestamp() OR asked > 0) \
     ORDER BY created_at LIMIT $1";

/// How many of the migrations have been made. None is made again: even where it changes nothing, it waits for every open
/// transaction of every handler, and new ones wait behind it.
pub(super) const MIGRATED: &str = "\
    SELECT CASE WHEN to_regclass('idem_schema') IS NULL OR to_regclass('idem_records') IS NULL THEN 0 \
                WHEN NOT EXISTS (SELECT FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid \
                                  WHERE indrelid = to_regclass('idem_records') AND relname = 'idem_records_in_progress') THEN 1 \
                ELSE 2 END";

/// Whether there is a schema of this name. To create one needs a right, even where it exists.
pub(super) const HAS_NAMESPACE: &str = "SELECT to_regnamespace(quote_ident($1)) IS NOT NULL";

/// Serializes migrations of several processes: the number is "idem" in ASCII.
pub(super) const MIGRATION_LOCK: &str = "SELECT pg_advisory_xact_lock(1768187245)";

/// How long a migration waits for the open transactions of handlers, behind which all new ones wait for it.
pub(super) const MIGRATION_LOCK_TIMEOUT: &str = "SET LOCAL lock_timeout = '1s'";
