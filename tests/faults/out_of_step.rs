//! Connections that must not be lent again: a COMMIT that failed, a COPY that was dropped half-way.
//! The next request is served on a sound connection, and no statement gets another one's response.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use axum::{Router, extract::Path, http::StatusCode, routing::post};
use futures_util::StreamExt as _;
use idem_runtime::{Idempotency, idempotent};
use idem_tests::{
    assertions::{assert_ran, count, records},
    databases::{postgres, sqlite},
    http::{self, RawResponse, Server},
    service::Account,
};
use sqlx::{Acquire, Executor, PgConnection, SqliteConnection, sqlite::SqlitePoolOptions};

async fn send(server: &Server, path: &str, key: &str) -> RawResponse {
    http::post(server.address(), path, &[("x-account", "ada"), ("idempotency-key", key)], String::new()).await
}

#[idempotent(scope = account)]
async fn insert(account: Account, tx: &mut SqliteConnection) -> StatusCode {
    let _ = account;
    tx.execute("INSERT INTO effects VALUES ('one')").await.unwrap();
    StatusCode::CREATED
}

/// SQLite has then rolled back by itself, as on a full disk, and sqlx still counts the transaction.
#[tokio::test]
async fn a_commit_that_sqlite_refuses_leaves_a_connection_that_serves_the_next_request() {
    let database = sqlite();
    let refusing = Arc::new(AtomicBool::new(false));
    let hook = Arc::clone(&refusing);
    let options = SqlitePoolOptions::new().max_connections(1).after_connect(move |connection, _| {
        let refusing = Arc::clone(&hook);
        Box::pin(async move {
            connection.lock_handle().await?.set_commit_hook(move || !refusing.load(Ordering::SeqCst));
            Ok(())
        })
    });
    let pool = options.connect_with(database.options()).await.unwrap();
    pool.execute("CREATE TABLE effects (mark TEXT)").await.unwrap();
    let idempotency = Idempotency::builder(pool.clone()).build();
    idempotency.migrate().await.unwrap();
    let server = Server::start(Router::new().route("/insert", post(insert)).with_state(idempotency)).await;
    for round in 0..4 {
        refusing.store(true, Ordering::SeqCst);
        let key = format!("k{round}");
        let refused = send(&server, "/insert", &key).await;
        assert!(refused.status >= 500, "{}", refused.text());
        refusing.store(false, Ordering::SeqCst);
        if round % 2 == 0 {
            // The application's own use of the pool, before idem's.
            let mut own = pool.begin().await.expect("a transaction");
            own.execute("INSERT INTO effects VALUES ('own')").await.unwrap();
            own.rollback().await.unwrap();
        }
        assert_ran(&send(&server, "/insert", &key).await);
    }
    let rows: i64 = sqlx::query_scalar("SELECT count(*) FROM effects").fetch_one(&pool).await.unwrap();
    assert_eq!(rows, 4);
}

/// Drops a COPY half-way, in the transaction or in a nested one, and goes on as if nothing were.
#[idempotent(scope = account)]
async fn copy(account: Account, Path(how): Path<String>, tx: &mut PgConnection) -> StatusCode {
    let _ = account;
    match how.as_str() {
        "in" => drop_copy_in(tx).await,
        "out" => drop_copy_out(tx).await,
        "nested-in" => {
            let mut nested = tx.begin().await.unwrap();
            drop_copy_in(&mut nested).await;
            drop(nested.rollback().await);
            drop(tx.execute("INSERT INTO effects VALUES ('after')").await);
            drop(tx.execute("INSERT INTO effects VALUES ('after')").await);
        }
        "nested-out" => {
            let mut nested = tx.begin().await.unwrap();
            drop_copy_out(&mut nested).await;
            drop(nested.rollback().await);
            drop(tx.execute("INSERT INTO effects VALUES ('after')").await);
        }
        other => unreachable!("{other}"),
    }
    match how.as_str() {
        "out" => StatusCode::BAD_GATEWAY,
        _ => StatusCode::CREATED,
    }
}

async fn drop_copy_in(connection: &mut PgConnection) {
    let mut copy = connection.copy_in_raw("COPY effects FROM STDIN").await.unwrap();
    copy.send(b"one\n".as_slice()).await.unwrap();
}

async fn drop_copy_out(connection: &mut PgConnection) {
    let mut copy = connection.copy_out_raw("COPY (SELECT generate_series(1, 100000)) TO STDOUT").await.unwrap();
    copy.next().await.unwrap().unwrap();
}

#[idempotent(scope = account)]
async fn plain(account: Account, tx: &mut PgConnection) -> StatusCode {
    let _ = account;
    tx.execute("INSERT INTO effects VALUES ('plain')").await.unwrap();
    StatusCode::CREATED
}

#[tokio::test]
async fn a_copy_that_was_dropped_half_way_costs_its_connection_and_nothing_else() {
    let database = postgres().await;
    let pool = database.pool(1).await;
    pool.execute("CREATE TABLE effects (mark text)").await.unwrap();
    let idempotency = Idempotency::builder(pool.clone()).build();
    idempotency.migrate().await.unwrap();
    let router = Router::new().route("/copy/{how}", post(copy)).route("/plain", post(plain));
    let server = Server::start(router.with_state(idempotency)).await;
    for (done, how) in ["in", "out", "nested-in", "nested-out"].into_iter().enumerate() {
        let before = (records(&database).await, count(&database, "effects").await);
        let response = send(&server, &format!("/copy/{how}"), how).await;
        let after = (records(&database).await, count(&database, "effects").await);
        if response.status < 300 {
            assert_eq!(after.0, before.0 + 1, "{how}: a success that is not recorded");
        } else {
            assert_eq!(after, before, "{how}: {}", response.text());
        }
        // Each statement gets its own row.
        for number in [41, 42, 43] {
            let got: i32 = sqlx::query_scalar("SELECT $1::int").bind(number).fetch_one(&pool).await.unwrap();
            assert_eq!(got, number, "{how}");
        }
        assert_ran(&send(&server, "/plain", &format!("plain{done}")).await);
    }
}
