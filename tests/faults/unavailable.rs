//! The store is down, frozen, full of others, read-only, without its table, not permitted, locked, or ends the session.
//! Bounded time, a true response, nothing runs unprotected, and recovery without a restart.

use std::{future::Future, time::Duration};

use idem_tests::{
    assertions::{assert_problem, assert_ran, assert_replayed, count, no_session, records, rows},
    databases::{Postgres, postgres},
    http,
    log_capture::{complaints, listen},
    proxy::{Network, Proxy},
    service::{Service, prepare, request},
};
use sqlx::{AssertSqlSafe, Connection, Executor, PgPool, postgres::PgPoolOptions};
use tokio::time::timeout;

mod locks;

const PATIENCE: Duration = Duration::from_millis(700);
const UNAVAILABLE: &str = "idempotency-store-unavailable";

/// Far above the timeout that is set here, below the default one: code that ignores the option fails, noise does not.
async fn bounded<F: Future>(answer: F) -> F::Output {
    timeout(Duration::from_secs(8), answer).await.expect("an answer in bounded time")
}

async fn impatient(database: &Postgres, pool: PgPool) -> Service {
    Service::start_with(database, pool, |builder| builder.database_timeout(PATIENCE)).await
}

async fn pid(pool: &PgPool) -> i32 {
    sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(pool).await.unwrap()
}

#[tokio::test]
async fn b53_a_server_that_is_down() {
    let database = postgres().await;
    let proxy = Proxy::start(&database).await;
    let service = impatient(&database, database.pool_with(2, proxy.options(&database)).await).await;
    assert_ran(&service.send("before", "write").await);
    proxy.set(Network::Down);
    proxy.cut_all().await;
    for _ in 0..3 {
        assert_problem(&bounded(service.send("k", "write")).await, 503, UNAVAILABLE);
        assert_problem(&bounded(service.send("before", "write")).await, 503, UNAVAILABLE);
    }
    assert_eq!(service.runs(), 1);
    proxy.set(Network::Up);
    assert_ran(&service.retry("k", "write").await);
    assert_replayed(&service.send("before", "write").await);
}

#[tokio::test]
async fn b53_a_server_that_accepts_and_never_answers() {
    for test_before_acquire in [true, false] {
        let database = postgres().await;
        let proxy = Proxy::start(&database).await;
        let options = PgPoolOptions::new().max_connections(1).test_before_acquire(test_before_acquire);
        let pool = options.connect_with(proxy.options(&database)).await.unwrap();
        let service = impatient(&database, pool).await;
        assert_ran(&service.send("before", "write").await);
        proxy.set(Network::Frozen);
        for _ in 0..3 {
            assert_problem(&bounded(service.send("k", "write")).await, 503, UNAVAILABLE);
        }
        assert_eq!((service.runs(), rows(&database, "k").await), (1, 0));
        proxy.set(Network::Up);
        assert_ran(&service.retry("k", "write").await);
        assert_replayed(&service.send("k", "write").await);
        assert_eq!((service.runs(), rows(&database, "k").await), (2, 1));
        no_session(&database, "state LIKE 'idle in transaction%'").await;
    }
}

#[tokio::test]
async fn b53_a_server_that_freezes_in_the_middle() {
    let database = postgres().await;
    let proxy = Proxy::start(&database).await;
    let service = impatient(&database, database.pool_with(1, proxy.options(&database)).await).await;
    // Nothing was committed where the record could not be written; what COMMIT did, nobody knows.
    listen();
    database.connect().await.execute("CREATE TABLE ordinary (id int)").await.unwrap();
    for (number, (statement, code)) in [
        ("pg_try_advisory_xact_lock", UNAVAILABLE),
        ("SELECT r.operation", UNAVAILABLE),
        ("INSERT INTO idem_records AS r", UNAVAILABLE),
        ("COMMIT", "idempotency-outcome-unknown"),
    ]
    .into_iter()
    .enumerate()
    {
        let key = format!("k{number}");
        let trap = proxy.hold(statement);
        let answer = bounded(service.send(&key, "write")).await;
        trap.sprung().await;
        assert_problem(&answer, 503, code);
        assert_eq!((rows(&database, &key).await, records(&database).await), (0, i64::try_from(number).unwrap()));
        trap.release();
        // Whoever has the connection next is in no transaction of ours.
        service.pool.execute("INSERT INTO ordinary VALUES (1)").await.unwrap();
        assert_eq!(count(&database, "ordinary").await, i64::try_from(number + 1).unwrap(), "{statement}");
        let retried = service.retry(&key, "write").await;
        // A held COMMIT goes through once it is released.
        if code == UNAVAILABLE {
            assert_ran(&retried)
        } else {
            assert_replayed(&retried)
        }
        assert_eq!(rows(&database, &key).await, 1, "{statement}");
    }
    // Of the third the first run was undone.
    assert_eq!(service.runs(), 5);
    assert_eq!(complaints(), <[String; 0]>::default());
    no_session(&database, "state LIKE 'idle in transaction%'").await;
}

#[tokio::test]
async fn b53_a_claim_that_the_database_refuses_leaves_the_connection_in_no_transaction() {
    for (broken, mended) in [
        ("TABLE idem_records RENAME TO elsewhere", "TABLE elsewhere RENAME TO idem_records"),
        (
            "FUNCTION pg_advisory_xact_lock_shared(bigint) RENAME TO elsewhere",
            "FUNCTION elsewhere(bigint) RENAME TO pg_advisory_xact_lock_shared",
        ),
    ] {
        let database = postgres().await;
        let service = Service::start_with(&database, database.pool(1).await, |builder| builder).await;
        let mut outside = database.connect().await;
        outside.execute("CREATE TABLE ordinary (id int)").await.unwrap();
        outside.execute(AssertSqlSafe(format!("ALTER {broken}"))).await.unwrap();
        for inserted in [1, 2] {
            assert_problem(&service.send("k", "write").await, 500, "idempotency-schema");
            service.pool.execute("INSERT INTO ordinary VALUES (1)").await.unwrap();
            assert_eq!(count(&database, "ordinary").await, inserted, "{broken}");
        }
        outside.execute(AssertSqlSafe(format!("ALTER {mended}"))).await.unwrap();
        assert_ran(&service.send("k", "write").await);
        assert_eq!((service.runs(), rows(&database, "k").await), (1, 1));
    }
}

#[tokio::test]
async fn b53_a_missing_table_is_not_the_clients_fault_and_runs_nothing() {
    let database = postgres().await;
    let service = Service::start(&database).await;
    let mut outside = database.connect().await;
    outside.execute("ALTER TABLE idem_records RENAME TO elsewhere").await.unwrap();
    assert_problem(&service.send("k", "write").await, 500, "idempotency-schema");
    assert_problem(&service.send("k", "write").await, 500, "idempotency-schema");
    assert_eq!((service.runs(), rows(&database, "k").await), (0, 0));
    outside.execute("ALTER TABLE elsewhere RENAME TO idem_records").await.unwrap();
    assert_ran(&service.send("k", "write").await);
    outside.execute("DROP TABLE idem_records").await.unwrap();
    assert_problem(&service.send("k2", "write").await, 500, "idempotency-schema");
    assert_eq!(service.runs(), 1);
}

#[tokio::test]
async fn b49_an_exhausted_pool_answers_within_its_timeout() {
    let database = postgres().await;
    let options = PgPoolOptions::new().max_connections(1).acquire_timeout(PATIENCE);
    let pool = options.connect_with(database.options()).await.unwrap();
    let service = Service::start_with(&database, pool, |builder| builder).await;
    let first = service.begin("first", "wait");
    service.probe.gate.entered().await;
    for _ in 0..3 {
        assert_problem(&bounded(service.send("k", "write")).await, 503, UNAVAILABLE);
    }
    // A duplicate needs no connection.
    assert_problem(&bounded(service.send("first", "wait")).await, 409, "in-progress");
    assert_eq!(service.runs(), 1);
    service.probe.gate.open();
    assert_ran(&first.await.unwrap());
    assert_ran(&service.send("k", "write").await);
}

#[tokio::test]
async fn b50_a_session_ended_by_the_server_in_the_handler_leaves_nothing() {
    let database = postgres().await;
    let limited = database.options().options([("idle_in_transaction_session_timeout", "1500ms")]);
    let service = Service::start_with(&database, database.pool_with(1, limited).await, |builder| builder).await;
    for (runs, act) in ["wait", "wait_then_read"].into_iter().enumerate() {
        let first = service.begin(act, act);
        service.probe.gate.entered().await;
        no_session(&database, "state = 'idle in transaction'").await;
        service.probe.gate.let_one_through();
        assert_problem(&first.await.unwrap(), 503, UNAVAILABLE);
        assert_eq!((rows(&database, act).await, service.runs()), (0, 2 * runs + 1), "{act}");
        // Without waiting this time.
        service.probe.gate.let_one_through();
        assert_ran(&service.send(act, act).await);
        assert_eq!(rows(&database, act).await, 1);
        service.probe.gate.entered().await;
    }
}

#[tokio::test]
async fn b52_a_server_that_has_become_read_only_runs_nothing_and_is_left() {
    let database = postgres().await;
    let service = Service::start_with(&database, database.pool(1).await, |builder| builder).await;
    assert_ran(&service.send("before", "write").await);
    // As after a failover under an open connection: the session lives, and accepts no writes any more.
    service.pool.execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY").await.unwrap();
    let old = pid(&service.pool).await;
    assert_problem(&service.send("k", "write").await, 503, UNAVAILABLE);
    assert_eq!(service.runs(), 1);
    assert_ne!(pid(&service.pool).await, old, "the connection to a server that accepts no writes was kept");
    assert_ran(&service.send("k", "write").await);
    assert_eq!(rows(&database, "k").await, 1);
}

#[tokio::test]
async fn b52_a_database_set_read_only_runs_nothing_until_it_is_set_back() {
    let database = postgres().await;
    let service = Service::start(&database).await;
    assert_ran(&service.send("before", "write").await);
    database.set("default_transaction_read_only", "on").await;
    database.end_all_connections().await;
    for _ in 0..4 {
        assert_problem(&service.send("k", "write").await, 503, UNAVAILABLE);
    }
    assert_eq!(service.runs(), 1);
    database.set("default_transaction_read_only", "off").await;
    assert_ran(&service.send("k", "write").await);
    assert_replayed(&service.send("before", "write").await);
    assert_eq!((rows(&database, "k").await, service.runs()), (1, 2));
}

#[tokio::test]
async fn b60_every_connection_ended_in_the_handler_frees_every_key() {
    let database = postgres().await;
    let service = Service::start(&database).await;
    let running: Vec<_> = (0..3).map(|number| service.begin(&format!("k{number}"), "wait")).collect();
    for _ in 0..3 {
        service.probe.gate.entered().await;
    }
    database.end_all_connections().await;
    service.probe.gate.open();
    for first in running {
        assert_problem(&first.await.unwrap(), 503, UNAVAILABLE);
    }
    for number in 0..3 {
        let key = format!("k{number}");
        assert_ran(&service.send(&key, "wait").await);
        assert_eq!(rows(&database, &key).await, 1);
    }
}

#[tokio::test]
async fn b53_a_client_that_left_a_frozen_store_leaves_nothing_behind() {
    let database = postgres().await;
    let proxy = Proxy::start(&database).await;
    let service = impatient(&database, database.pool_with(1, proxy.options(&database)).await).await;
    assert_ran(&service.send("before", "write").await);
    proxy.set(Network::Frozen);
    let mut client = http::Connection::open(service.address()).await;
    client.send(&request("k", "write")).await;
    drop(client);
    service.abandoned().await;
    proxy.set(Network::Up);
    service.idempotency.drain(Duration::from_secs(30)).await.unwrap();
    let retried = service.retry("k", "write").await;
    assert!(retried.status == 201, "{}", retried.text());
    assert_eq!(rows(&database, "k").await, 1);
    no_session(&database, "state LIKE 'idle in transaction%'").await;
}
