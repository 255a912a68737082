//! Clients that go away at every moment of a request, on a pool of one connection.
//! An attempt goes on to its end, and the connection comes back clean: the next to use it is an innocent.

use std::time::Duration;

use idem_runtime::messages::{ConsumeError, Once};
use idem_tests::{
    assertions::{assert_problem, assert_replayed, count, no_session, records, rows},
    databases::{Postgres, postgres},
    gate::Gate,
    http::Connection,
    log_capture::{complaints, listen},
    proxy::Proxy,
    service::{Service, request},
    soon,
};
use sqlx::{Executor, postgres::PgPoolOptions};

async fn on_one_connection(test_before_acquire: bool) -> (Postgres, Proxy, Service) {
    let database = postgres().await;
    let proxy = Proxy::start(&database).await;
    let options = PgPoolOptions::new().max_connections(1).test_before_acquire(test_before_acquire);
    let pool = options.connect_with(proxy.options(&database)).await.unwrap();
    let service = Service::start_with(&database, pool, |builder| builder).await;
    database.connect().await.execute("CREATE TABLE ordinary (id int PRIMARY KEY)").await.unwrap();
    (database, proxy, service)
}

#[tokio::test]
async fn b46_a_complaint_of_the_server_is_heard() {
    listen();
    let database = postgres().await;
    let mut connection = database.connect().await;
    connection.execute("BEGIN; BEGIN").await.unwrap();
    assert!(complaints()[0].contains("already a transaction in progress"));
    assert_eq!(complaints().len(), 1);
}

/// The moments are a sweep, not a proof: whichever moment it is, everything below must hold.
async fn sweep(test_before_acquire: bool) {
    let (database, proxy, service) = on_one_connection(test_before_acquire).await;
    listen();
    proxy.delay(Duration::from_millis(20));
    let moments: Vec<u64> = (0..=50).step_by(2).collect();
    for &moment in &moments {
        let mut client = Connection::open(service.address()).await;
        client.send(&request(&format!("k{moment}"), "write")).await;
        tokio::time::sleep(Duration::from_millis(moment)).await;
        client.reset();
        let ordinary = sqlx::query("INSERT INTO ordinary VALUES ($1)").bind(i32::try_from(moment).unwrap());
        ordinary.execute(&service.pool).await.expect("an ordinary query on a clean connection");
    }
    service.idempotency.drain(Duration::from_secs(30)).await.unwrap();
    proxy.delay(Duration::ZERO);
    no_session(&database, "state LIKE 'idle in transaction%'").await;
    assert_eq!(count(&database, "ordinary").await, i64::try_from(moments.len()).unwrap());

    for moment in moments {
        let key = format!("k{moment}");
        let before = rows(&database, &key).await;
        assert!(before <= 1, "{key}");
        let retried = service.retry(&key, "write").await;
        assert_eq!(retried.status, 201, "{key}: {}", retried.text());
        assert_eq!(retried.header("idempotent-replayed").is_some(), before == 1, "{key}");
        assert_eq!(rows(&database, &key).await, 1, "{key}");
    }
    assert_eq!(complaints(), <[String; 0]>::default());
}

#[tokio::test]
async fn b46_disconnects_at_any_moment_on_a_tested_connection() {
    sweep(true).await;
}

#[tokio::test]
async fn b46_disconnects_at_any_moment_on_an_untested_connection() {
    sweep(false).await;
}

#[tokio::test]
async fn b47_a_disconnect_at_each_statement_does_not_stop_the_attempt() {
    for test_before_acquire in [true, false] {
        let (database, proxy, service) = on_one_connection(test_before_acquire).await;
        listen();
        for (number, statement) in [
            "pg_try_advisory_xact_lock",
            "SELECT r.operation",
            "INSERT INTO effects",
            "INSERT INTO idem_records AS r",
            "COMMIT",
        ]
        .into_iter()
        .enumerate()
        {
            let key = format!("k{number}");
            let trap = proxy.hold(statement);
            let mut client = Connection::open(service.address()).await;
            client.send(&request(&key, "write")).await;
            trap.sprung().await;
            client.reset();
            service.abandoned().await;
            trap.release();
            let ordinary = sqlx::query("INSERT INTO ordinary VALUES ($1)").bind(i32::try_from(number).unwrap());
            ordinary.execute(&service.pool).await.expect("an ordinary query on a clean connection");

            assert_eq!(rows(&database, &key).await, 1, "{statement}");
            assert_replayed(&service.send(&key, "write").await);
            assert_eq!((rows(&database, &key).await, service.runs()), (1, number + 1), "{statement}");
        }
        assert_eq!((count(&database, "ordinary").await, records(&database).await), (5, 5));
        no_session(&database, "state LIKE 'idle in transaction%'").await;
        assert_eq!(complaints(), <[String; 0]>::default());
    }
}

#[tokio::test]
async fn b47_a_disconnect_in_the_handler_does_not_free_the_key() {
    let (database, _proxy, service) = on_one_connection(true).await;
    let mut client = Connection::open(service.address()).await;
    client.send(&request("k", "wait")).await;
    service.probe.gate.entered().await;
    client.reset();
    service.abandoned().await;
    assert_problem(&service.send("k", "wait").await, 409, "in-progress");
    service.probe.gate.open();
    assert_replayed(&service.retry("k", "wait").await);
    assert_eq!((rows(&database, "k").await, service.runs()), (1, 1));
}

/// The rollback is sent after the drop, by another task: until the server has run it, the id is in progress.
#[tokio::test]
async fn b82_a_dropped_consumer_keeps_its_id_until_the_server_has_rolled_back() {
    let database = postgres().await;
    let proxy = Proxy::start(&database).await;
    let pool = database.pool_with(2, proxy.options(&database)).await;
    let service = Service::start_with(&database, pool, |builder| builder).await;
    let deliver = |gate: Gate| {
        let idempotency = service.idempotency.clone();
        async move {
            let effect = idempotency.consumer("receipt").once("queue", "m", |_| {
                Box::pin(async move {
                    gate.pass().await;
                    Ok::<_, sqlx::Error>(())
                })
            });
            effect.await
        }
    };
    let (closed, open) = (Gate::new(), Gate::new());
    open.open();
    let first = tokio::spawn(deliver(closed.clone()));
    closed.entered().await;
    let rollback = proxy.hold("ROLLBACK");
    first.abort();
    assert!(soon("its end", first).await.unwrap_err().is_cancelled());
    soon("the rollback", rollback.sprung()).await;
    let second = soon("an answer", deliver(open.clone())).await;
    assert!(matches!(second, Err(ConsumeError::InProgress)), "{second:?}");
    rollback.release();
    database.no_transaction().await;
    assert!(matches!(soon("an answer", deliver(open)).await, Ok(Once::Ran(()))));
}
