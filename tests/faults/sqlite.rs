//! SQLite has one writer: a second one waits and succeeds, or gets a 503; a full or read-only disk stores nothing.
//! In WAL mode and in DELETE mode, from two pools as from two processes, and in memory.

use std::time::Duration;

use axum::{Json, Router, extract::State, http::StatusCode, routing::post};
use futures_util::future::join_all;
use idem_runtime::{Builder, Idempotency, idempotent};
use idem_tests::{
    assertions::{assert_problem, assert_ran, assert_replayed},
    databases::{sqlite, sqlite_in_memory},
    http::{self, RawResponse, Server},
    service::{Account, Act, App, Failed, Order, Probe, order},
    soon,
};
use serde_json::{Value, json};
use sqlx::{
    Connection, Executor, Sqlite as Db, SqliteConnection, SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode},
};

const UNAVAILABLE: &str = "idempotency-store-unavailable";

/// Reads, then writes: what a transaction that is not begun for writing cannot always do.
#[idempotent(scope = account)]
async fn act(
    account: Account,
    State(probe): State<Probe>,
    tx: &mut SqliteConnection,
    Json(order): Json<Order>,
) -> Result<(StatusCode, Json<Value>), Failed> {
    let _ = account;
    probe.runs.begin();
    let before: i64 = sqlx::query_scalar("SELECT count(*) FROM effects").fetch_one(&mut *tx).await?;
    sqlx::query("INSERT INTO effects (mark) VALUES ($1)").bind(&order.mark).execute(&mut *tx).await?;
    match order.act {
        Act::Wait => probe.gate.pass().await,
        Act::SwallowLast => drop(tx.execute("SELECT 1 FROM no_such_table").await),
        _ => {}
    }
    Ok((StatusCode::CREATED, Json(json!({ "before": before, "mark": order.mark }))))
}

struct Service {
    probe: Probe,
    pool: SqlitePool,
    server: Server,
}

impl Service {
    async fn start(pool: SqlitePool) -> Self {
        Self::start_with(pool, |builder| builder).await
    }

    async fn start_with(pool: SqlitePool, options: impl FnOnce(Builder<Db>) -> Builder<Db>) -> Self {
        pool.execute("CREATE TABLE IF NOT EXISTS effects (mark TEXT NOT NULL)").await.unwrap();
        Idempotency::builder(pool.clone()).build().migrate().await.unwrap();
        Self::join(pool, options).await
    }

    async fn join(pool: SqlitePool, options: impl FnOnce(Builder<Db>) -> Builder<Db>) -> Self {
        let app = App { idempotency: options(Idempotency::builder(pool.clone())).build(), probe: Probe::default() };
        let router = Router::new().route("/act", post(act)).with_state(app.clone());
        Self { probe: app.probe, pool, server: Server::start(router).await }
    }

    async fn send(&self, key: &str, act: &str) -> RawResponse {
        let headers = [("x-account", "ada"), ("idempotency-key", key)];
        http::post(self.server.address(), "/act", &headers, order(key, act)).await
    }

    fn begin(&self, key: &'static str, act: &'static str) -> tokio::task::JoinHandle<RawResponse> {
        let address = self.server.address();
        let headers = [("x-account", "ada"), ("idempotency-key", key)];
        tokio::spawn(async move { http::post(address, "/act", &headers, order(key, act)).await })
    }

    fn runs(&self) -> usize {
        self.probe.runs.count()
    }

    async fn rows(&self) -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM effects").fetch_one(&self.pool).await.unwrap()
    }

    async fn records(&self) -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM idem_records").fetch_one(&self.pool).await.unwrap()
    }
}

/// 200 keys at once over two pools on one file; then duplicates of one key over both.
async fn b55_many(options: SqliteConnectOptions) {
    // Turns are not taken in order, so on a busy machine one of many can wait long.
    let options = options.busy_timeout(Duration::from_secs(30));
    let pool = |options| sqlx::sqlite::SqlitePoolOptions::new().max_connections(5).connect_with(options);
    let patient = |builder: Builder<Db>| builder.database_timeout(Duration::from_secs(30));
    let one = Service::start_with(pool(options.clone()).await.unwrap(), patient).await;
    let other = Service::start_with(pool(options).await.unwrap(), patient).await;
    let services = [&one, &other];
    let answers = (0..200).map(|number| {
        let service = services[number % 2];
        async move { service.send(&format!("k{number}"), "write").await }
    });
    for answer in join_all(answers).await {
        assert_ran(&answer);
    }
    assert_eq!((one.runs() + other.runs(), one.rows().await, one.records().await), (200, 200, 200));

    let twins = join_all((0..40).map(|number| services[number % 2].send("twin", "write"))).await;
    let ran = twins.iter().filter(|answer| answer.status == 201 && answer.header("idempotent-replayed").is_none());
    assert_eq!((ran.count(), one.runs() + other.runs(), one.rows().await), (1, 201, 201));
    for twin in &twins {
        assert!(matches!(twin.status, 201 | 409), "{}", twin.text());
    }
}

#[tokio::test]
async fn b55_many_keys_that_read_then_write_in_wal_mode() {
    let database = sqlite();
    b55_many(database.options()).await;
}

#[tokio::test]
async fn b55_many_keys_that_read_then_write_in_delete_mode() {
    let database = sqlite();
    b55_many(database.options().journal_mode(SqliteJournalMode::Delete)).await;
}

#[tokio::test]
async fn b55_a_writer_elsewhere_beyond_the_busy_timeout() {
    for mode in [SqliteJournalMode::Wal, SqliteJournalMode::Delete] {
        let database = sqlite();
        let options = database.options().journal_mode(mode).busy_timeout(Duration::from_millis(50));
        let service = Service::start(database.pool_with(2, options.clone()).await).await;
        let mut outside = SqliteConnection::connect_with(&options).await.unwrap();
        outside.execute("BEGIN IMMEDIATE").await.unwrap();
        for _ in 0..3 {
            assert_problem(&service.send("k", "write").await, 503, UNAVAILABLE);
        }
        assert_eq!((service.runs(), service.rows().await), (0, 0));
        outside.execute("ROLLBACK").await.unwrap();
        assert_ran(&service.send("k", "write").await);
        assert_replayed(&service.send("k", "write").await);
        assert_eq!(service.rows().await, 1);
    }
}

#[tokio::test]
async fn b55_a_writer_elsewhere_beyond_the_patience() {
    let database = sqlite();
    let options = database.options().busy_timeout(Duration::from_secs(60));
    let pool = database.pool_with(1, options.clone()).await;
    let service = Service::start_with(pool, |builder| builder.database_timeout(Duration::from_millis(700))).await;
    let mut outside = SqliteConnection::connect_with(&options).await.unwrap();
    outside.execute("BEGIN IMMEDIATE").await.unwrap();
    for _ in 0..3 {
        let answer = tokio::time::timeout(Duration::from_secs(8), service.send("k", "write")).await;
        assert_problem(&answer.expect("an answer in bounded time"), 503, UNAVAILABLE);
    }
    assert_eq!(service.runs(), 0);
    outside.execute("ROLLBACK").await.unwrap();
    // The claim that nobody waited for has got its turn, and has given it up again.
    service.pool.execute("INSERT INTO effects VALUES ('ordinary')").await.unwrap();
    assert_ran(&service.send("k", "write").await);
    assert_eq!((service.runs(), service.rows().await), (1, 2));
}

#[tokio::test]
async fn a_replay_in_another_process_does_not_wait_for_a_handler() {
    for mode in [SqliteJournalMode::Wal, SqliteJournalMode::Delete] {
        let database = sqlite();
        // Longer than the test takes: what waits for the handler waits for the end of the test.
        let patience = Duration::from_secs(60);
        let options = database.options().journal_mode(mode).busy_timeout(patience);
        let service = Service::start(database.pool_with(2, options.clone()).await).await;
        let long = |builder: Builder<Db>| builder.database_timeout(patience);
        let other = Service::join(database.pool_with(2, options).await, long).await;
        assert_ran(&service.send("done", "write").await);
        let held = service.begin("held", "wait");
        service.probe.gate.entered().await;
        assert_replayed(&soon("a replay beside a handler", other.send("done", "write")).await);
        let mismatch = soon("a mismatch beside a handler", other.send("done", "swallow_last")).await;
        assert_problem(&mismatch, 422, "idempotency-key-reuse");
        service.probe.gate.open();
        assert_ran(&soon("the handler", held).await.unwrap());
        assert_eq!((other.runs(), service.rows().await), (0, 2));
    }
}

/// Without WAL a reader keeps a writer from committing, so the refusal comes at the very end.
#[tokio::test]
async fn b55_a_reader_that_keeps_commit_from_happening() {
    let database = sqlite();
    let options = database.options().journal_mode(SqliteJournalMode::Delete).busy_timeout(Duration::from_millis(50));
    let service = Service::start(database.pool_with(1, options.clone()).await).await;
    let mut outside = SqliteConnection::connect_with(&options).await.unwrap();
    outside.execute("BEGIN").await.unwrap();
    outside.execute("SELECT count(*) FROM effects").await.unwrap();
    assert_problem(&service.send("k", "write").await, 503, UNAVAILABLE);
    assert_eq!(service.runs(), 1);
    outside.execute("ROLLBACK").await.unwrap();
    assert_eq!((service.rows().await, service.records().await), (0, 0));
    assert_ran(&service.send("k", "write").await);
    assert_replayed(&service.send("k", "write").await);
    assert_eq!((service.rows().await, service.runs()), (1, 2));
}

/// What is written takes about 25 pages in `effects` and as many in the record, which repeats it.
#[tokio::test]
async fn b53_a_full_disk_stores_nothing() {
    let database = sqlite();
    let service = Service::start(database.pool(1).await).await;
    assert_ran(&service.send("before", "write").await);
    let big = order(&"x".repeat(100_000), "write");
    let headers = [("x-account", "ada"), ("idempotency-key", "k")];
    let send = || http::post(service.server.address(), "/act", &headers, &big);
    let pages: i64 = sqlx::query_scalar("PRAGMA page_count").fetch_one(&service.pool).await.unwrap();
    // Full at the handler's own statement, then at the record's.
    for more in [0, 35] {
        let limit = sqlx::AssertSqlSafe(format!("PRAGMA max_page_count = {}", pages + more));
        service.pool.execute(limit).await.unwrap();
        assert_problem(&send().await, 503, UNAVAILABLE);
        assert_eq!((service.rows().await, service.records().await), (1, 1));
    }
    service.pool.execute("PRAGMA max_page_count = 1000000").await.unwrap();
    assert_ran(&send().await);
    assert_replayed(&send().await);
    assert_eq!((service.runs(), service.rows().await, service.records().await), (4, 2, 2));
}

#[tokio::test]
async fn b53_a_read_only_file_runs_nothing() {
    let database = sqlite();
    let writing = Service::start(database.pool(1).await).await;
    assert_ran(&writing.send("before", "write").await);
    let pool = database.pool_with(1, database.options().read_only(true)).await;
    let service = Service::join(pool, |builder| builder).await;
    assert_problem(&service.send("k", "write").await, 503, UNAVAILABLE);
    assert_eq!((service.runs(), writing.rows().await), (0, 1));
}

#[tokio::test]
async fn b53_a_missing_table_runs_nothing() {
    let database = sqlite();
    let service = Service::start(database.pool(1).await).await;
    service.pool.execute("ALTER TABLE idem_records RENAME TO elsewhere").await.unwrap();
    assert_problem(&service.send("k", "write").await, 500, "idempotency-schema");
    assert_eq!((service.runs(), service.rows().await), (0, 0));
    service.pool.execute("ALTER TABLE elsewhere RENAME TO idem_records").await.unwrap();
    assert_ran(&service.send("k", "write").await);
}

#[tokio::test]
async fn b43_a_failed_statement_does_not_undo_what_sqlite_keeps() {
    let database = sqlite();
    let service = Service::start(database.pool(1).await).await;
    assert_ran(&service.send("k", "swallow_last").await);
    assert_replayed(&service.send("k", "swallow_last").await);
    assert_eq!((service.rows().await, service.runs()), (1, 1));
}

#[tokio::test]
async fn b68_in_memory_with_a_pool_of_one() {
    let service = Service::start(sqlite_in_memory().await).await;
    let answers = join_all((0..20).map(|number| {
        let service = &service;
        async move { service.send(&format!("k{number}"), "write").await }
    }));
    for answer in answers.await {
        assert_ran(&answer);
    }
    let first = service.begin("twin", "wait");
    service.probe.gate.entered().await;
    assert_problem(&service.send("twin", "wait").await, 409, "in-progress");
    assert_problem(&service.send("twin", "write").await, 422, "idempotency-key-reuse");
    service.probe.gate.open();
    assert_ran(&first.await.unwrap());
    assert_replayed(&service.send("twin", "wait").await);
    assert_eq!((service.runs(), service.rows().await, service.records().await), (21, 21, 21));
}

#[tokio::test]
async fn b54_keys_are_told_apart_as_bytes() {
    let service = Service::start(sqlite_in_memory().await).await;
    for key in ["abc", "ABC", "aBc", "\"abc \"", "\" abc\"", "abc."] {
        assert_ran(
            &http::post(
                service.server.address(),
                "/act",
                &[("x-account", "ada"), ("idempotency-key", key)],
                order("each", "write"),
            )
            .await,
        );
    }
    assert_eq!((service.runs(), service.rows().await), (6, 6));
}
