//! The connection breaks at each statement of the path, before it or after it, COMMIT above all.
//! Never a 2xx with nothing saved, never a second run of what was saved.

use idem_tests::{
    assertions::{assert_problem, assert_ran, assert_replayed, records, rows},
    databases::{Postgres, postgres},
    http,
    proxy::{Cut, Proxy},
    service::{Service, request},
};

/// Every statement on the way of a new key, but COMMIT.
const BEFORE_COMMIT: [&str; 4] =
    ["pg_try_advisory_xact_lock", "SELECT r.operation", "INSERT INTO effects", "INSERT INTO idem_records AS r"];

async fn proxied() -> (Postgres, Proxy, Service) {
    let database = postgres().await;
    let proxy = Proxy::start(&database).await;
    let pool = database.pool_with(2, proxy.options(&database)).await;
    let service = Service::start_with(&database, pool, |builder| builder).await;
    (database, proxy, service)
}

#[tokio::test]
async fn b44_a_lost_commit_is_unknown_and_its_retry_replays() {
    let (database, proxy, service) = proxied().await;
    let trap = proxy.cut(Cut::After, "COMMIT");
    assert_problem(&service.send("k", "write").await, 503, "idempotency-outcome-unknown");
    trap.sprung().await;
    assert_eq!((rows(&database, "k").await, service.runs()), (1, 1));

    assert_replayed(&service.send("k", "write").await);
    assert_eq!((rows(&database, "k").await, service.runs()), (1, 1));
}

#[tokio::test]
async fn b44_a_commit_that_never_arrived_is_unknown_and_its_retry_runs() {
    let (database, proxy, service) = proxied().await;
    let trap = proxy.cut(Cut::Before, "COMMIT");
    assert_problem(&service.send("k", "write").await, 503, "idempotency-outcome-unknown");
    trap.sprung().await;
    assert_eq!((rows(&database, "k").await, records(&database).await, service.runs()), (0, 0, 1));

    assert_ran(&service.retry("k", "write").await);
    assert_replayed(&service.send("k", "write").await);
    assert_eq!((rows(&database, "k").await, service.runs()), (1, 2));
}

#[tokio::test]
async fn b44_a_decline_whose_commit_is_lost_is_unknown_too() {
    for (cut, runs) in [(Cut::After, 1), (Cut::Before, 2)] {
        let (database, proxy, service) = proxied().await;
        let _trap = proxy.cut(cut, "COMMIT");
        assert_problem(&service.send("k", "decline").await, 503, "idempotency-outcome-unknown");
        let retried = service.retry("k", "decline").await;
        assert_eq!((retried.status, service.runs()), (402, runs));
        assert_eq!((rows(&database, "k").await, records(&database).await), (0, 1));
    }
}

#[tokio::test]
async fn b40_a_connection_lost_before_commit_leaves_nothing() {
    let (database, proxy, service) = proxied().await;
    let mut runs = 0;
    for cut in [Cut::Before, Cut::After] {
        for (number, statement) in BEFORE_COMMIT.into_iter().enumerate() {
            let key = format!("{cut:?}-{number}");
            // Prepared, and the pool warm, so that the cut meets a running service.
            assert_ran(&service.send(&format!("warm-{key}"), "write").await);
            let trap = proxy.cut(cut, statement);
            assert_problem(&service.send(&key, "write").await, 503, "idempotency-store-unavailable");
            trap.sprung().await;
            assert_eq!(rows(&database, &key).await, 0, "{cut:?} {statement}");

            assert_ran(&service.retry(&key, "write").await);
            assert_eq!(rows(&database, &key).await, 1, "{cut:?} {statement}");
            // The body begins between the look and its own statement.
            runs += if number < 2 { 2 } else { 3 };
            assert_eq!(service.runs(), runs, "{cut:?} {statement}");
        }
    }
}

#[tokio::test]
async fn b40_a_connection_lost_while_an_answer_is_undone_leaves_nothing() {
    let (database, proxy, service) = proxied().await;
    for (key, cut, statement) in [
        ("a", Cut::Before, "ROLLBACK TO SAVEPOINT"),
        ("b", Cut::After, "ROLLBACK TO SAVEPOINT"),
        ("c", Cut::Before, "INSERT INTO idem_records AS r"),
        ("d", Cut::After, "INSERT INTO idem_records AS r"),
    ] {
        let before = records(&database).await;
        let trap = proxy.cut(cut, statement);
        assert_problem(&service.send(key, "decline").await, 503, "idempotency-store-unavailable");
        trap.sprung().await;
        assert_eq!(records(&database).await, before, "{cut:?} {statement}");
        assert_eq!(service.retry(key, "decline").await.status, 402);
        assert_eq!((rows(&database, key).await, records(&database).await), (0, before + 1));
    }
}

#[tokio::test]
async fn b44_an_unprotected_run_has_no_success_without_its_commit() {
    let (database, proxy, service) = proxied().await;
    for (cut, statement, code) in [
        (Cut::Before, "RELEASE SAVEPOINT", "idempotency-store-unavailable"),
        (Cut::After, "RELEASE SAVEPOINT", "idempotency-store-unavailable"),
        (Cut::Before, "COMMIT", "idempotency-outcome-unknown"),
    ] {
        let _trap = proxy.cut(cut, statement);
        let put = http::send(
            service.address(),
            "PUT",
            "/act",
            &[("x-account", "ada"), ("idempotency-key", "k")],
            idem_tests::service::order("put", "write"),
        );
        assert_problem(&put.await, 503, code);
        assert_eq!((rows(&database, "put").await, records(&database).await), (0, 0), "{cut:?} {statement}");
    }
}

#[tokio::test]
async fn b38_a_twin_of_a_commit_under_way_is_turned_away_and_never_runs() {
    let (database, proxy, service) = proxied().await;
    let trap = proxy.hold("COMMIT");
    let first = service.begin("k", "write");
    trap.sprung().await;
    assert_problem(&service.send("k", "write").await, 409, "in-progress");
    let other = http::post(
        service.address(),
        "/act",
        &[("x-account", "ada"), ("idempotency-key", "k")],
        idem_tests::service::order("other", "write"),
    );
    assert_problem(&other.await, 422, "idempotency-key-reuse");
    assert!(!first.is_finished(), "an answer before its commit");
    trap.release();
    assert_ran(&first.await.unwrap());
    assert_replayed(&service.send("k", "write").await);
    assert_eq!((rows(&database, "k").await, service.runs()), (1, 1));
}

#[tokio::test]
async fn b44_a_client_that_left_during_commit_finds_its_answer() {
    let (database, proxy, service) = proxied().await;
    let trap = proxy.hold("COMMIT");
    let mut client = http::Connection::open(service.address()).await;
    client.send(&request("k", "write")).await;
    trap.sprung().await;
    client.reset();
    service.abandoned().await;
    trap.release();
    assert_replayed(&service.retry("k", "write").await);
    assert_eq!((rows(&database, "k").await, service.runs()), (1, 1));
}
