//! What the guarantee costs: statements, read off the server's own log, and connections.
//! Nothing here measures time.

use futures_util::future::join_all;
use idem_runtime::{messages::Once, recovery::SweepReport};
use idem_tests::{
    assertions::{assert_problem, assert_ran, assert_replayed, count, rows},
    databases::{Postgres, postgres},
    http,
    service::{Service, charge, order},
    soon,
    statement_log::StatementLog,
};
use sqlx::Connection;

mod cost {
    mod external;
}

/// The service's sessions, in the server's log and in its list.
const SERVICE: &str = "service";

/// The locks and BEGIN are one message.
const BEGIN: &str = "SELECT pg_advisory_xact_lock_shared(";
const LOOK: &str = "SELECT r.operation";
const OWN: &str = "INSERT INTO effects";
const RECORD: &str = "INSERT INTO idem_records AS r";

/// With external effects: the claim reads, locks and inserts in one statement, which commits by itself.
const LEASE: &str = "WITH held AS MATERIALIZED";
const BEGIN_TO_COMPLETE: &str = "SET LOCAL idem.attempt";
const RESTORE: &str = "SELECT set_config('role', current_setting('idem.role'), true)";
const COMPLETE: &str = "UPDATE idem_records SET format = ";
/// Renewing a lease, or ending it.
const RENEW: &str = "UPDATE idem_records SET lease_until = clock_timestamp() + make_interval(secs => $3) WHERE";
const RELEASE: &str = "DELETE FROM idem_records WHERE id = $1 AND attempt = $2";
const SURVEY: &str = "SELECT count(*) FILTER";
const BEGIN_TO_TAKE: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";
const TAKE: &str = "UPDATE idem_records SET attempt = ";

async fn service(connections: u32) -> (Postgres, Service) {
    let database = postgres().await;
    let pool = database.pool_with(connections, database.options().application_name(SERVICE)).await;
    let service = Service::start_with(&database, pool, |builder| builder).await;
    // Everything is prepared: what is counted is how it goes on.
    assert_ran(&service.send("warm", "write").await);
    (database, service)
}

/// What the service has sent since the last time: exactly these, by how they begin.
#[track_caller]
fn assert_statements(statements: &[String], expected: &[&str]) {
    let same = statements.len() == expected.len()
        && statements.iter().zip(expected).all(|(statement, start)| statement.starts_with(start));
    assert!(same, "{statements:#?}\nis not\n{expected:#?}");
}

#[tokio::test]
async fn a_new_key_costs_two_statements_more_than_a_bare_transaction() {
    let (database, service) = service(1).await;
    let mut log = StatementLog::start(&database).await;
    let mut transaction = service.pool.begin().await.unwrap();
    sqlx::query("INSERT INTO effects (account, mark) VALUES ($1, $2) RETURNING id")
        .bind("ada")
        .bind("bare")
        .execute(&mut *transaction)
        .await
        .unwrap();
    transaction.commit().await.unwrap();
    let bare = log.statements_of(SERVICE).await.len();
    assert_eq!(bare, 3);

    assert_ran(&service.send("k", "write").await);
    let all = log.statements_of(SERVICE).await;
    assert_statements(&all[bare..], &[BEGIN, LOOK, OWN, RECORD, "COMMIT"]);
    assert_eq!(all.len() - bare, bare + 2);
}

#[tokio::test]
async fn a_new_key_on_a_new_connection_costs_the_same() {
    let (database, service) = service(1).await;
    database.end_all_connections().await;
    let mut log = StatementLog::start(&database).await;
    assert_ran(&service.send("k", "write").await);
    assert_statements(&log.statements_of(SERVICE).await, &[BEGIN, LOOK, OWN, RECORD, "COMMIT"]);
}

#[tokio::test]
async fn a_replay_or_a_mismatch_costs_begin_and_one_statement() {
    let (database, service) = service(1).await;
    let mut log = StatementLog::start(&database).await;
    assert_replayed(&service.send("warm", "write").await);
    assert_statements(&log.statements_of(SERVICE).await, &[BEGIN, LOOK, "ROLLBACK"]);
    assert_problem(&service.send("warm", "wait").await, 422, "idempotency-key-reuse");
    assert_statements(&log.statements_of(SERVICE).await[3..], &[BEGIN, LOOK, "ROLLBACK"]);
}

#[tokio::test]
async fn a_message_costs_what_a_request_costs_and_a_duplicate_begin_and_one_statement() {
    let (database, service) = service(1).await;
    let deliver = async |id: &str| {
        let consumer = service.idempotency.consumer("act");
        let told = consumer.once("orders", id, |tx| {
            Box::pin(async move {
                let insert = sqlx::query("INSERT INTO effects (account, mark) VALUES ($1, $2) RETURNING id");
                insert.bind("ada").bind("message").execute(&mut **tx).await.map(|done| done.rows_affected())
            })
        });
        told.await.unwrap()
    };
    let mut log = StatementLog::start(&database).await;
    assert_eq!(deliver("m").await, Once::Ran(1));
    assert_statements(&log.statements_of(SERVICE).await, &[BEGIN, LOOK, OWN, RECORD, "COMMIT"]);
    assert_eq!(deliver("m").await, Once::AlreadyDone(1));
    assert_statements(&log.statements_of(SERVICE).await[5..], &[BEGIN, LOOK, "ROLLBACK"]);
}

#[tokio::test]
async fn a_response_without_its_writes_costs_one_statement_more_and_a_5xx_two() {
    let (database, service) = service(1).await;
    let mut log = StatementLog::start(&database).await;
    assert_eq!(service.send("declined", "decline").await.status, 402);
    assert_eq!(service.send("panicked", "panic").await.status, 500);
    let declined = [BEGIN, LOOK, OWN, "ROLLBACK TO SAVEPOINT", RECORD, "COMMIT"];
    // A 5xx also asks whether the database has aborted the transaction.
    let panicked = [BEGIN, LOOK, OWN, "SELECT 'idem ", "ROLLBACK TO SAVEPOINT", RECORD, "COMMIT"];
    assert_statements(&log.statements_of(SERVICE).await, &[&declined[..], &panicked].concat());
}

#[tokio::test]
async fn an_unprotected_run_costs_the_proof_that_its_transaction_is_sound() {
    let (database, service) = service(1).await;
    let mut log = StatementLog::start(&database).await;
    let put = http::send(service.address(), "PUT", "/act", &[("x-account", "ada")], order("put", "write")).await;
    assert_eq!((put.status, rows(&database, "put").await), (201, 1));
    assert_statements(&log.statements_of(SERVICE).await, &["BEGIN; SAVEPOINT", OWN, "RELEASE SAVEPOINT", "COMMIT"]);
}

#[tokio::test]
async fn a_twin_in_the_same_process_costs_nothing() {
    let (database, service) = service(4).await;
    let first = service.begin("k", "wait");
    service.probe.gate.entered().await;
    let mut log = StatementLog::start(&database).await;
    for _ in 0..5 {
        assert_problem(&service.send("k", "wait").await, 409, "in-progress");
        assert_problem(&service.send("k", "write").await, 422, "idempotency-key-reuse");
    }
    assert_statements(&log.statements_of(SERVICE).await, &[]);
    service.probe.gate.open();
    assert_ran(&first.await.unwrap());
}

#[tokio::test]
async fn a_twin_in_another_process_costs_a_look_at_its_holder_and_another_at_the_record() {
    let (database, service) = service(1).await;
    let pool = database.pool_with(1, database.options().application_name("other")).await;
    let other = Service::join(pool, |builder| builder).await;
    let first = service.begin("k", "wait");
    service.probe.gate.entered().await;
    let mut log = StatementLog::start(&database).await;
    assert_problem(&other.send("k", "wait").await, 409, "in-progress");
    assert_statements(&log.statements_of("other").await, &[BEGIN, LOOK, "SELECT bool_or(", LOOK, "ROLLBACK"]);
    service.probe.gate.open();
    assert_ran(&first.await.unwrap());
}

#[tokio::test]
async fn a_key_that_is_none_costs_nothing() {
    let (database, service) = service(1).await;
    let mut log = StatementLog::start(&database).await;
    for key in ["", "  ", "\"\"", "a,b", "a;b", "\"open", &"x".repeat(256)] {
        assert_problem(&service.send(key, "write").await, 400, "idempotency-key-malformed");
    }
    let missing = http::post(service.address(), "/act", &[("x-account", "ada")], order("k", "write")).await;
    assert_problem(&missing, 400, "idempotency-key-missing");
    // What an extractor turns away costs as little.
    let nobody = http::post(service.address(), "/act", &[("idempotency-key", "k")], order("k", "write")).await;
    let nonsense = http::post(service.address(), "/act", &[("x-account", "ada"), ("idempotency-key", "k")], "{}").await;
    assert_eq!((nobody.status, nonsense.status), (401, 422));
    assert_statements(&log.statements_of(SERVICE).await, &[]);
    assert_eq!(service.runs(), 1);
}

#[tokio::test]
async fn b49_each_running_request_has_one_connection_and_its_twins_have_none() {
    let (database, service) = service(8).await;
    // A connection goes back to its pool just after the response.
    let in_use = async |expected: usize| {
        let settled = async {
            while service.pool.size() as usize - service.pool.num_idle() != expected {
                tokio::task::yield_now().await;
            }
        };
        soon("the connections in use", settled).await;
    };
    let mut running = Vec::new();
    for number in 0..6 {
        running.push(service.begin(&format!("k{number}"), "wait"));
        service.probe.gate.entered().await;
        in_use(number + 1).await;
    }
    let sessions = format!("pg_stat_activity WHERE application_name = '{SERVICE}' AND datname = '{}'", database.name());
    let open = format!("{sessions} AND state = 'idle in transaction'");
    assert_eq!(count(&database, &open).await, 6);

    let twins = join_all((0..30).map(|_| service.send("k0", "wait"))).await;
    assert!(twins.iter().all(|twin| twin.status == 409));
    in_use(6).await;
    // An unrelated request has its connection.
    assert_ran(&service.send("unrelated", "write").await);
    service.probe.gate.open();
    for first in running {
        assert_ran(&first.await.unwrap());
    }
    in_use(0).await;
    assert_eq!(count(&database, &open).await, 0);
}

#[tokio::test]
async fn b49_a_pool_of_one_serves_any_number() {
    let (database, service) = service(1).await;
    for number in 0..10 {
        assert_ran(&service.send(&format!("one-by-one-{number}"), "write").await);
        assert_eq!(service.send(&format!("declined-{number}"), "decline").await.status, 402);
    }
    let at_once = join_all((0..30).map(|number| {
        let service = &service;
        async move { service.send(&format!("at-once-{number}"), "write").await }
    }));
    for answer in at_once.await {
        assert_ran(&answer);
    }
    for number in 0..30 {
        assert_eq!(rows(&database, &format!("at-once-{number}")).await, 1);
    }
    // And the pool is whole.
    service.pool.acquire().await.unwrap().ping().await.unwrap();
    assert_eq!(service.runs(), 51);
}
