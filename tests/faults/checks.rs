//! What `check` finds before a service serves: rights, the table's key, a database that accepts no writes, settings that lose
//! commits. Each is something that requests would meet later.

use std::time::Duration;

use idem_runtime::{Backend, Error, Idempotency};
use idem_tests::{
    databases::{Postgres, postgres, sqlite},
    log_capture::{heard, listen},
};
use sqlx::{
    AssertSqlSafe, Connection, Database, Executor, Pool, SqliteConnection,
    sqlite::{SqliteJournalMode, SqliteSynchronous},
};

fn of<Db: Backend + Database>(pool: Pool<Db>) -> Idempotency<Db> {
    Idempotency::builder(pool).build()
}

/// A database with the table, and a check by a role that may do everything with it.
async fn as_role() -> (Postgres, Idempotency<sqlx::Postgres>) {
    let database = postgres().await;
    of(database.pool(1).await).migrate().await.unwrap();
    database.connect().await.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO pg_monitor").await.unwrap();
    let pool = database.pool_with(1, database.options().options([("role", "pg_monitor")])).await;
    (database, of(pool))
}

#[tokio::test]
async fn a_right_that_requests_need_is_named() {
    let (database, idempotency) = as_role().await;
    let mut owner = database.connect().await;
    idempotency.check().await.unwrap();
    for right in ["SELECT", "INSERT", "UPDATE"] {
        owner.execute(AssertSqlSafe(format!("REVOKE {right} ON idem_records FROM pg_monitor"))).await.unwrap();
        let checked = idempotency.check().await.unwrap_err();
        assert!(checked.to_string().contains(&format!("{right} on `idem_records`")), "{checked}");
        owner.execute(AssertSqlSafe(format!("GRANT {right} ON idem_records TO pg_monitor"))).await.unwrap();
    }
    for (revoke, grant, named) in [
        ("REVOKE SELECT ON idem_schema FROM pg_monitor", "GRANT SELECT ON idem_schema TO pg_monitor", "idem_schema"),
        (
            "REVOKE EXECUTE ON FUNCTION pg_advisory_xact_lock_shared(bigint) FROM PUBLIC",
            "GRANT EXECUTE ON FUNCTION pg_advisory_xact_lock_shared(bigint) TO PUBLIC",
            "pg_advisory_xact_lock_shared",
        ),
        (
            "REVOKE EXECUTE ON FUNCTION pg_try_advisory_xact_lock(bigint) FROM PUBLIC",
            "GRANT EXECUTE ON FUNCTION pg_try_advisory_xact_lock(bigint) TO PUBLIC",
            "pg_try_advisory_xact_lock",
        ),
    ] {
        owner.execute(revoke).await.unwrap();
        let checked = idempotency.check().await.unwrap_err();
        assert!(matches!(&checked, Error::NotPermitted { missing } if missing.contains(named)), "{revoke}: {checked}");
        owner.execute(grant).await.unwrap();
    }
    listen();
    owner.execute("REVOKE DELETE ON idem_records FROM pg_monitor").await.unwrap();
    idempotency.check().await.unwrap();
    assert!(heard().contains("may not DELETE"), "pruning alone needs it");
    let records: i64 = sqlx::query_scalar("SELECT count(*) FROM idem_records").fetch_one(&mut owner).await.unwrap();
    assert_eq!(records, 0, "a check leaves nothing");
}

#[tokio::test]
async fn a_key_that_is_not_the_id_alone_is_named() {
    let primary = "ALTER TABLE idem_records DROP CONSTRAINT idem_records_pkey";
    for (change, isolation) in [
        ("", "read committed"),
        (", ADD PRIMARY KEY (id, expires_at)", "read committed"),
        (", ADD PRIMARY KEY (id) DEFERRABLE", "read committed"),
        (", ADD PRIMARY KEY (id, expires_at)", "serializable"),
    ] {
        let (database, idempotency) = as_role().await;
        database.set("default_transaction_isolation", isolation).await;
        database.end_all_connections().await;
        idempotency.check().await.unwrap();
        database.connect().await.execute(AssertSqlSafe(format!("{primary}{change}"))).await.unwrap();
        let checked = idempotency.check().await;
        assert!(matches!(checked, Err(Error::IdNotUnique)), "{change:?}, {isolation}: {checked:?}");
        let migrated = of(database.pool(1).await).migrate().await;
        assert!(matches!(migrated, Err(Error::IdNotUnique)), "{change:?}, {isolation}: {migrated:?}");
    }
}

#[tokio::test]
async fn a_role_that_may_only_read_is_named() {
    let (database, idempotency) = as_role().await;
    database.set("default_transaction_read_only", "on").await;
    database.end_all_connections().await;
    let checked = idempotency.check().await;
    assert!(matches!(checked, Err(Error::ReadOnly)), "{checked:?}");
}

#[tokio::test]
async fn a_commit_that_does_not_wait_for_the_disk_is_a_warning() {
    listen();
    let (database, idempotency) = as_role().await;
    idempotency.check().await.unwrap();
    assert!(!heard().contains("synchronous_commit is off"));
    database.set("synchronous_commit", "off").await;
    database.end_all_connections().await;
    idempotency.check().await.unwrap();
    assert!(heard().contains("synchronous_commit is off"));
}

#[tokio::test]
async fn on_sqlite_a_key_and_a_file_that_cannot_work_are_named() {
    let database = sqlite();
    of(database.pool(1).await).migrate().await.unwrap();
    for read_only in [database.options().read_only(true), database.options().pragma("query_only", "on")] {
        let checked = of(database.pool_with(1, read_only).await).check().await;
        assert!(matches!(checked, Err(Error::ReadOnly)), "{checked:?}");
    }
    let mut owner = SqliteConnection::connect_with(&database.options()).await.unwrap();
    owner
        .execute(
            "CREATE TABLE copy AS SELECT * FROM idem_records; DROP TABLE idem_records; \
             CREATE TABLE idem_records (id BLOB, operation TEXT, fingerprint BLOB, format INTEGER, status INTEGER, \
                 headers BLOB, body BLOB, created_at INTEGER, expires_at INTEGER, attempt BLOB, lease_until INTEGER, \
                 retention INTEGER, asked INTEGER, last_error TEXT, request BLOB, PRIMARY KEY (id, expires_at))",
        )
        .await
        .unwrap();
    let checked = of(database.pool(1).await).check().await;
    assert!(matches!(checked, Err(Error::IdNotUnique)), "{checked:?}");
}

/// Another process's handler may take its time.
#[tokio::test]
async fn on_sqlite_a_check_waits_for_no_writer() {
    let database = sqlite();
    let patient = database.options().busy_timeout(Duration::from_secs(3600));
    let pool = database.pool_with(1, patient).await;
    of(pool.clone()).migrate().await.unwrap();
    let mut writer = SqliteConnection::connect_with(&database.options()).await.unwrap();
    writer.execute("BEGIN IMMEDIATE").await.unwrap();
    of(pool.clone()).check().await.unwrap();
    let patience: i64 = sqlx::query_scalar("PRAGMA busy_timeout").fetch_one(&pool).await.unwrap();
    assert_eq!(patience, 3_600_000, "the application's own is left");
}

#[tokio::test]
async fn on_sqlite_a_commit_that_does_not_wait_for_the_disk_is_a_warning() {
    for (journal, synchronous, warned) in [
        (SqliteJournalMode::Wal, SqliteSynchronous::Full, false),
        (SqliteJournalMode::Wal, SqliteSynchronous::Normal, true),
        (SqliteJournalMode::Delete, SqliteSynchronous::Normal, false),
        (SqliteJournalMode::Delete, SqliteSynchronous::Off, true),
    ] {
        listen();
        let database = sqlite();
        let options = database.options().journal_mode(journal).synchronous(synchronous);
        of(database.pool_with(1, options).await).migrate().await.unwrap();
        let heard = heard().contains("a crash of the host can lose what is committed");
        assert_eq!(heard, warned, "{journal:?} {synchronous:?}");
    }
}
