//! The tools that the other tests stand on do what they say: each is shown to catch what it is there to catch.
//! A proxy that does not cut, or a log that misses a statement, would let other tests pass for nothing.

use std::time::Duration;

use axum::{
    Json, Router,
    body::{Body, Bytes},
    http::StatusCode,
    response::{AppendHeaders, IntoResponse},
    routing::{get, post},
};
use idem_tests::{
    databases::{Postgres, postgres, sqlite, sqlite_in_memory},
    gate::{Gate, Runs},
    http::{self, Server},
    process::{Process, charges_command, payments_command},
    proxy::{Cut, Network, Proxy},
    soon,
    statement_log::StatementLog,
};
use sqlx::{Connection, Executor, PgPool, Row};
use tokio::{process::Command, time::timeout};

mod support_check {
    mod proxy;
}

async fn table(pool: &PgPool) {
    pool.execute("CREATE TABLE t (id int PRIMARY KEY)").await.unwrap();
}

async fn rows(database: &Postgres) -> i64 {
    database.connect().await.fetch_one("SELECT count(*) FROM t").await.unwrap().get(0)
}

async fn insert_and_commit(pool: &PgPool, id: i32) -> sqlx::Result<()> {
    let work = async {
        let mut tx = pool.begin().await?;
        sqlx::query("INSERT INTO t VALUES ($1)").bind(id).execute(&mut *tx).await?;
        tx.commit().await
    };
    // A proxy that forgets to cut leaves this without a response.
    soon("a commit or its failure", work).await
}

#[tokio::test]
async fn postgres_databases_are_separate_and_go_away() {
    let (one, other) = (postgres().await, postgres().await);
    let pool = one.pool(2).await;
    table(&pool).await;
    assert_eq!(rows(&one).await, 0);
    assert!(other.connect().await.execute("SELECT * FROM t").await.is_err());
    one.set("default_transaction_isolation", "serializable").await;
    let level = one.connect().await.fetch_one("SHOW default_transaction_isolation").await.unwrap();
    assert_eq!(level.get::<String, _>(0), "serializable");
    assert!(sqlx::PgConnection::connect(&one.url()).await.is_ok(), "{}", one.url());

    let name = one.name().to_owned();
    drop(one); // while the pool is connected
    let left = sqlx::query("SELECT count(*) FROM pg_database WHERE datname = $1").bind(name);
    let left: i64 = left.fetch_one(&mut other.connect_to_server().await).await.unwrap().get(0);
    assert_eq!(left, 0);
}

#[tokio::test]
async fn connections_can_be_ended_by_the_server() {
    let database = postgres().await;
    let mut connection = database.connect().await;
    database.end_all_connections().await;
    assert!(connection.ping().await.is_err());
}

#[tokio::test]
async fn sqlite_files_are_in_wal_mode_and_shared_by_a_pool() {
    let database = sqlite();
    let pool = database.pool(3).await;
    let mode: String = sqlx::query_scalar("PRAGMA journal_mode").fetch_one(&pool).await.unwrap();
    assert_eq!(mode, "wal");
    pool.execute("CREATE TABLE t (id int)").await.unwrap();
    let (mut one, mut other) = (pool.acquire().await.unwrap(), pool.acquire().await.unwrap());
    one.execute("INSERT INTO t VALUES (1)").await.unwrap();
    let seen: i64 = sqlx::query_scalar("SELECT count(*) FROM t").fetch_one(&mut *other).await.unwrap();
    assert_eq!(seen, 1);
    assert!(sqlx::SqliteConnection::connect(&database.url()).await.is_ok());

    let memory = sqlite_in_memory().await;
    assert!(memory.execute("SELECT * FROM t").await.is_err());
}

#[tokio::test]
async fn the_statement_log_has_every_statement_once_and_in_order() {
    let (database, other) = (postgres().await, postgres().await);
    let pool = database.pool_with(1, database.options().application_name("my app")).await;
    table(&pool).await;
    let mut log = StatementLog::start(&database).await;
    insert_and_commit(&pool, 1).await.unwrap();
    other.connect().await.execute("SELECT 'elsewhere'").await.unwrap();
    database.connect().await.execute("SELECT 1,\n\t2").await.unwrap();

    let expected = ["BEGIN", "INSERT INTO t VALUES ($1)", "COMMIT"];
    assert_eq!(log.statements_of("my app").await, expected);
    assert_eq!(log.statements().await, [&expected[..], &["SELECT 1,\n\t2"]].concat());
    insert_and_commit(&pool, 2).await.unwrap();
    assert_eq!(log.statements().await.len(), 7);
    log.close().await;
}

#[tokio::test]
async fn a_gate_orders_a_handler_and_its_test() {
    let (gate, runs) = (Gate::new(), Runs::default());
    let handler = {
        let (gate, runs) = (gate.clone(), runs.clone());
        move || async move {
            runs.begin();
            gate.pass().await;
            "done"
        }
    };
    let server = Server::start(Router::new().route("/", post(handler))).await;
    let ask = || tokio::spawn(http::post(server.address(), "/", &[], ""));
    let (one, other) = (ask(), ask());
    gate.entered().await;
    gate.entered().await;
    assert_eq!(runs.count(), 2);
    assert!(!one.is_finished() && !other.is_finished());
    gate.let_one_through();
    tokio::select! {
        response = soon("one response", one) => assert_eq!(response.unwrap().text(), "done"),
        response = soon("one response", other) => assert_eq!(response.unwrap().text(), "done"),
    }
    gate.open();
    assert_eq!(ask().await.unwrap().text(), "done");
    server.stop().await;
}

#[tokio::test]
async fn the_raw_client_shows_what_was_sent() {
    let headers =
        || {
            AppendHeaders([("x-a", "1, 2"), ("x-a", " 3"), ("x-b", "caf\u{e9}")].map(|(name, value)| {
                (name, axum::http::HeaderValue::from_bytes(value.trim_start().as_bytes()).unwrap())
            }))
        };
    let chunks = || Body::from_stream(tokio_stream(["one ", "two"]));
    let router = Router::new()
        .route("/echo", post(move |body: Bytes| async move { (StatusCode::CREATED, headers(), body) }))
        .route("/chunks", get(move || async move { chunks() }))
        .route("/json", post(|Json(value): Json<serde_json::Value>| async move { Json(value) }))
        .route("/nothing", get(|| async { StatusCode::NO_CONTENT.into_response() }));
    let server = Server::start(router).await;

    let every_byte: Vec<u8> = (0..=255).collect();
    let typed = [("Content-Type", "application/octet-stream")];
    let response = http::post(server.address(), "/echo", &typed, &every_byte).await;
    assert_eq!((response.status, &response.body), (201, &every_byte));
    assert_eq!(response.all("X-A"), [&b"1, 2"[..], b"3"]);
    assert_eq!(response.header("x-a"), None, "two lines are not one value");
    assert_eq!(response.all("x-b"), ["caf\u{e9}".as_bytes()]);
    assert_eq!(http::post(server.address(), "/json", &[], r#"{"a":1}"#).await.json()["a"], 1);

    let mut connection = http::Connection::open(server.address()).await;
    connection.send(&http::request("GET", "/chunks", &[], "")).await;
    assert_eq!(connection.response().await.text(), "one two");
    connection.send(&http::request("HEAD", "/chunks", &[], "")).await;
    assert_eq!(connection.response_to_head().await.status, 200);
    connection.send(&http::request("GET", "/nothing", &[], "")).await;
    assert_eq!(connection.response().await.status, 204);
    connection.send(b"GET /nothing HTTP/1.1\r\nHost: x\r\nBad Header: \x00\r\n\r\n").await;
    assert_eq!(connection.response().await.status, 400);
    assert_eq!(connection.surplus().await, b"");
}

/// A body of unknown length.
fn tokio_stream(parts: [&'static str; 2]) -> impl futures_util::Stream<Item = Result<&'static str, std::io::Error>> {
    futures_util::stream::iter(parts.map(Ok))
}

#[tokio::test]
async fn a_dropped_connection_is_seen_by_the_server() {
    let (gate, gone) = (Gate::new(), Gate::new());
    let handler = {
        let (gate, gone) = (gate.clone(), gone.clone());
        move || async move {
            // axum drops the handler when its client has gone.
            struct Gone(Gate);
            impl Drop for Gone {
                fn drop(&mut self) {
                    self.0.open();
                }
            }
            let _gone = Gone(gone);
            gate.pass().await;
        }
    };
    let server = Server::start(Router::new().route("/", post(handler))).await;
    let mut connection = http::Connection::open(server.address()).await;
    connection.send(&http::request("POST", "/", &[], "")).await;
    gate.entered().await;
    connection.reset();
    soon("the handler to be dropped", gone.pass()).await;
}

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

#[tokio::test]
async fn a_process_can_be_stopped_continued_and_ended() {
    let script = "trap 'echo drained; exit 0' TERM; echo listening on http://127.0.0.1:7; while :; do sleep 0.02; done";
    let mut process = Process::start(shell(script)).await;
    assert_eq!(process.address().port(), 7);
    process.signal("STOP").await;
    process.signal("TERM").await;
    assert!(timeout(Duration::from_millis(100), process.wait()).await.is_err(), "a stopped process that ends");
    process.signal("CONT").await;
    assert!(process.wait().await.success());
    assert!(process.output().contains("drained"), "{}", process.output());

    let mut process = Process::start(shell(script)).await;
    process.signal("KILL").await;
    assert!(!process.wait().await.success());
}

#[tokio::test]
async fn the_examples_are_found_or_built() {
    for command in [payments_command(), charges_command("example-charges"), charges_command("card-network")] {
        let program = std::path::Path::new(command.as_std().get_program());
        assert!(program.is_file(), "{}", program.display());
    }
}
