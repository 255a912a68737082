//! External effects, recorded on SQLite: a busy writer, a full disk, a read-only file, no table.

use std::time::Duration;

use idem_tests::{
    assertions::{assert_problem, assert_ran, assert_replayed},
    databases::sqlite,
    service::sqlite_app::Service,
    soon,
};
use sqlx::{AssertSqlSafe, Connection, Executor, SqliteConnection, sqlite::SqliteJournalMode};

const UNAVAILABLE: &str = "idempotency-store-unavailable";
const UNKNOWN: &str = "idempotency-outcome-unknown";

/// Ends every lease, at this very moment.
const LAPSE: &str = "UPDATE idem_records \
    SET lease_until = CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) WHERE attempt IS NOT NULL";

async fn decided_by_recovery(service: &Service, key: &str, act: &str) {
    assert_problem(&service.charge("/charge", key, act).await, 409, "in-progress");
    assert_eq!(service.sweep().await.completed, 1);
    let replay = service.charge("/charge", key, act).await;
    assert_eq!(replay.text(), "by the recovery");
    assert_replayed(&replay);
    assert_eq!(service.counts().await, (1, 1, 0));
}

#[tokio::test]
async fn b55_a_writer_elsewhere_beyond_the_busy_timeout_claims_nothing() {
    for mode in [SqliteJournalMode::Wal, SqliteJournalMode::Delete] {
        let database = sqlite();
        let options = database.options().journal_mode(mode).busy_timeout(Duration::from_millis(50));
        let service = Service::start(database.pool_with(2, options.clone()).await).await;
        let mut outside = SqliteConnection::connect_with(&options).await.unwrap();
        outside.execute("BEGIN IMMEDIATE").await.unwrap();
        for _ in 0..3 {
            assert_problem(&service.charge("/charge", "k", "write").await, 503, UNAVAILABLE);
        }
        outside.execute("ROLLBACK").await.unwrap();
        assert_eq!((service.probe.runs.count(), service.counts().await), (0, (0, 0, 0)));
        assert_ran(&service.charge("/charge", "k", "write").await);
        assert_replayed(&service.charge("/charge", "k", "write").await);
    }
}

#[tokio::test]
async fn b55_a_claim_that_gets_its_turn_too_late_is_given_back() {
    let database = sqlite();
    let options = database.options().busy_timeout(Duration::from_secs(60));
    let pool = database.pool_with(1, options.clone()).await;
    let service = Service::start_with(pool, |builder| builder.database_timeout(Duration::from_millis(700))).await;
    let mut outside = SqliteConnection::connect_with(&options).await.unwrap();
    outside.execute("BEGIN IMMEDIATE").await.unwrap();
    for _ in 0..2 {
        let answer = tokio::time::timeout(Duration::from_secs(8), service.charge("/charge", "k", "write")).await;
        assert_problem(&answer.expect("an answer in bounded time"), 503, UNAVAILABLE);
    }
    assert_eq!(service.probe.runs.count(), 0);
    outside.execute("ROLLBACK").await.unwrap();
    let free = async {
        while service.charge("/charge", "k", "write").await.status != 201 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon("the claim to be given back", free).await;
    assert_replayed(&service.charge("/charge", "k", "write").await);
    assert_eq!((service.probe.runs.count(), service.counts().await), (1, (1, 1, 0)));
}

#[tokio::test]
async fn b55_a_writer_elsewhere_at_the_completion_leaves_the_record_to_the_recovery() {
    for act in ["wait", "wait_alone"] {
        let database = sqlite();
        let options = database.options().busy_timeout(Duration::from_millis(50));
        let service = Service::start(database.pool_with(2, options.clone()).await).await;
        let first = service.begin_charge("/charge", "k", act);
        service.probe.gate.entered().await;
        let mut outside = SqliteConnection::connect_with(&options).await.unwrap();
        outside.execute("BEGIN IMMEDIATE").await.unwrap();
        service.probe.gate.open();
        assert_problem(&soon("an answer", first).await.unwrap(), 503, UNKNOWN);
        outside.execute("ROLLBACK").await.unwrap();
        assert_eq!(service.counts().await, (0, 1, 1));
        service.pool.execute(LAPSE).await.unwrap();
        decided_by_recovery(&service, "k", act).await;
        assert_eq!((service.probe.runs.count(), service.probe.network.calls().len()), (1, 1));
    }
}

/// Without WAL a reader keeps a writer from committing.
#[tokio::test]
async fn b55_a_reader_that_keeps_the_completion_from_committing() {
    let database = sqlite();
    let options = database.options().journal_mode(SqliteJournalMode::Delete).busy_timeout(Duration::from_millis(50));
    let service = Service::start(database.pool_with(2, options.clone()).await).await;
    let mut outside = SqliteConnection::connect_with(&options).await.unwrap();
    let read = ["BEGIN", "SELECT count(*) FROM effects"];
    for sql in read {
        outside.execute(sql).await.unwrap();
    }
    assert_problem(&service.charge("/charge", "k", "write").await, 503, UNAVAILABLE);
    outside.execute("ROLLBACK").await.unwrap();
    assert_eq!((service.probe.runs.count(), service.counts().await), (0, (0, 0, 0)));

    let first = service.begin_charge("/charge", "k", "wait");
    service.probe.gate.entered().await;
    for sql in read {
        outside.execute(sql).await.unwrap();
    }
    service.probe.gate.open();
    assert_problem(&soon("an answer", first).await.unwrap(), 503, UNKNOWN);
    outside.execute("ROLLBACK").await.unwrap();
    assert_eq!(service.counts().await, (0, 1, 1));
    service.pool.execute(LAPSE).await.unwrap();
    decided_by_recovery(&service, "k", "wait").await;
    assert_eq!((service.probe.runs.count(), service.probe.network.calls().len()), (1, 1));
}

#[tokio::test]
async fn b53_a_full_disk_claims_nothing_or_leaves_the_record_to_the_recovery() {
    let database = sqlite();
    let service = Service::start(database.pool(1).await).await;
    let pages: i64 = sqlx::query_scalar("PRAGMA page_count").fetch_one(&service.pool).await.unwrap();
    let limit = |pages| AssertSqlSafe(format!("PRAGMA max_page_count = {pages}"));
    // Full at the handler's own statement: the claim has its page already, the row of so many bytes has none.
    let big: &'static str = Box::leak("x".repeat(100_000).into_boxed_str());
    let first = service.begin_charge("/charge", "k", "wait");
    service.probe.gate.entered().await;
    let other = {
        let order = idem_tests::service::order(big, "write");
        let headers = [("x-account", "ada"), ("idempotency-key", "big")];
        service.pool.execute(limit(pages + 5)).await.unwrap();
        idem_tests::http::post(service.address(), "/charge", &headers, order).await
    };
    // The row cannot be written, and SQLite has undone the transaction. The charge has happened all the same.
    assert_problem(&other, 503, UNKNOWN);
    assert_eq!((service.counts().await, service.probe.network.charges()), ((0, 2, 2), 2));
    service.probe.gate.open();
    assert_ran(&soon("an answer", first).await.unwrap());
    service.pool.execute(limit(1_000_000)).await.unwrap();
    assert_eq!((service.probe.runs.count(), service.counts().await), (2, (1, 2, 1)));
    assert_eq!(service.sweep().await.completed, 1);
    assert_eq!(service.counts().await, (2, 2, 0));

    // Full at the claim: records fill what there is.
    let pages: i64 = sqlx::query_scalar("PRAGMA page_count").fetch_one(&service.pool).await.unwrap();
    service.pool.execute(limit(pages)).await.unwrap();
    let mut refused = 0;
    for number in 0..200 {
        let key: &'static str = Box::leak(format!("k{number}").into_boxed_str());
        let runs = service.probe.runs.count();
        let answer = service.charge("/charge", key, "alone").await;
        match answer.status {
            201 => {}
            503 if service.probe.runs.count() == runs => {
                assert_problem(&answer, 503, UNAVAILABLE);
                refused += 1;
                if refused == 3 {
                    break;
                }
            }
            _ => assert_problem(&answer, 503, UNKNOWN),
        }
    }
    assert_eq!(refused, 3, "the file was never full at a claim");
    service.pool.execute(limit(1_000_000)).await.unwrap();
    assert_ran(&service.charge("/charge", "last", "write").await);
}

#[tokio::test]
async fn b53_a_read_only_file_claims_nothing() {
    let database = sqlite();
    let writing = Service::start(database.pool(1).await).await;
    assert_ran(&writing.charge("/charge", "before", "write").await);
    let pool = database.pool_with(1, database.options().read_only(true)).await;
    let service = Service::join(pool, |builder| builder).await;
    for _ in 0..2 {
        assert_problem(&service.charge("/charge", "k", "write").await, 503, UNAVAILABLE);
    }
    assert_eq!((service.probe.runs.count(), writing.counts().await), (0, (1, 1, 0)));
}

#[tokio::test]
async fn b53_a_missing_table_claims_nothing() {
    let database = sqlite();
    let service = Service::start(database.pool(1).await).await;
    service.pool.execute("ALTER TABLE idem_records RENAME TO elsewhere").await.unwrap();
    assert_problem(&service.charge("/charge", "k", "write").await, 500, "idempotency-schema");
    service.pool.execute("ALTER TABLE elsewhere RENAME TO idem_records").await.unwrap();
    assert_eq!((service.probe.runs.count(), service.counts().await), (0, (0, 0, 0)));
    assert_ran(&service.charge("/charge", "k", "write").await);
}
