//! Strict isolation levels, deadlocks, and who always loses: what the database refuses is run again, or is a 503.
//! Each test has two transactions that cannot both commit.

use std::time::Duration;

use idem_runtime::Builder;
use idem_tests::{http, statement_log::StatementLog};

use super::*;

#[tokio::test]
async fn b39_twins_at_strict_isolation_levels_are_409_or_replayed() {
    for level in ["repeatable read", "serializable"] {
        let service = service().await;
        service.database.set("default_transaction_isolation", level).await;
        let (one, other) = (service.beside(routes()).await, service.beside(routes()).await);
        let shown = one.pool.fetch_one("SHOW transaction_isolation").await.unwrap();
        assert_eq!(shown.get::<String, _>(0), level);
        for key in 0..10 {
            let keys = vec![format!("k{key}"); 20];
            let answers = at_once(&[&one, &other], "/pay", &keys).await;
            let ran =
                answers.iter().filter(|answer| answer.status == 201 && answer.header("idempotent-replayed").is_none());
            assert_eq!(ran.count(), 1, "{level}");
            assert!(answers.iter().all(|answer| matches!(answer.status, 201 | 409)), "{level}: {answers:?}");
        }
        let (runs, rows, records) = service.counts().await;
        assert_eq!((rows, records), (10, 10), "{level}");
        assert!(runs == 10 || level == "serializable", "{level}: {runs}");
    }
}

/// 200 keys at once, 20 times. Nothing that idem reads or writes for one key conflicts with another key.
async fn keys_that_have_nothing_in_common(level: &str) {
    let service = Service::of(routes(), 16, plain, || ().into_response()).await;
    service.database.set("default_transaction_isolation", level).await;
    let other = service.beside(routes()).await;
    let shown = other.pool.fetch_one("SHOW transaction_isolation").await.unwrap();
    assert_eq!(shown.get::<String, _>(0), level);
    let mut log = StatementLog::start(&service.database).await;
    for round in 0..20 {
        let keys: Vec<_> = (0..200).map(|key| format!("{round}-{key}")).collect();
        for answer in at_once(&[&other], "/pay", &keys).await {
            assert_eq!(answer.status, 201, "{level}: {}", answer.text());
        }
    }
    assert_eq!(log.not_serialized().await, [""; 0], "{level}");
    assert_eq!(service.counts().await, (4000, 4000, 4000));
}

#[tokio::test]
async fn distinct_keys_do_not_conflict_when_serializable() {
    keys_that_have_nothing_in_common("serializable").await;
}

#[tokio::test]
async fn distinct_keys_do_not_conflict_at_repeatable_read() {
    keys_that_have_nothing_in_common("repeatable read").await;
}

/// Reads what all others write, so that the database serializes them by refusing.
#[tokio::test]
async fn handlers_that_conflict_are_run_again_until_each_has_its_turn() {
    let service = Service::of(routes(), 16, plain, || ().into_response()).await;
    service.execute("CREATE TABLE sums (id BIGINT PRIMARY KEY, sum BIGINT NOT NULL)").await;
    service.execute("INSERT INTO sums VALUES (1, 0)").await;
    service.app.gate.open();
    let keys: Vec<_> = (0..50).map(|key| key.to_string()).collect();
    for answer in at_once(&[&service], "/add", &keys).await {
        assert_eq!(answer.status, 201, "{}", answer.text());
    }
    assert_eq!((sum(&service, 1).await, service.counts().await.1), (50, 50));
}

/// A mismatch meets, at each moment, a first request, its record, and a retry that holds the key's lock.
#[tokio::test]
async fn a_mismatch_among_retries_is_never_told_to_wait() {
    for level in ["repeatable read", "serializable"] {
        let service = Service::of(routes(), 8, plain, || ().into_response()).await;
        service.database.set("default_transaction_isolation", level).await;
        let (one, other) = (service.beside(routes()).await, service.beside(routes()).await);
        for key in 0..40 {
            let (key, first) = (format!("k{key}"), "1");
            assert_eq!(service.post("/pay", &key, first).await.status, 201);
            let request = |body: &str| http::request("POST", "/pay", &[ALICE, (KEY, &key)], body);
            let mixed = (0..20).map(|at| request(if at % 4 < 2 { first } else { "2" })).collect();
            for (at, answer) in all_at_once(&[&one, &other], mixed).await.into_iter().enumerate() {
                match at % 4 {
                    0 | 1 => {
                        assert_eq!(answer.header("idempotent-replayed"), Some("true"), "{level}: {}", answer.text())
                    }
                    _ => assert_problem(&answer, 422, "idempotency-key-reuse"),
                }
            }
        }
        assert_eq!(service.counts().await, (40, 40, 40), "{level}");
    }
}

#[tokio::test]
async fn b39_a_serialization_failure_in_the_handler_is_retried_whole() {
    let service = service().await;
    let keys = [service.posting("/add", "one", ""), service.posting("/add", "two", "")];
    // Both have their snapshots; the second to update cannot serialize.
    service.app.gate.entered().await;
    service.app.gate.entered().await;
    service.app.gate.let_one_through();
    soon("one commit", async { while sum(&service, 1).await == 0 {} }).await;
    service.app.gate.open();
    for key in keys {
        assert_eq!(soon("an answer", key).await.unwrap().status, 201);
    }
    assert_eq!((sum(&service, 1).await, service.counts().await), (2, (3, 2, 2)));
}

#[tokio::test]
async fn b39_a_conflict_that_shows_at_the_end_is_retried_whole() {
    let service = service().await;
    let (one, two) = (service.posting("/skew/101", "one", ""), service.posting("/skew/102", "two", ""));
    // Both have read and written, neither sees the other's row or waits for it: only the end can tell.
    service.app.gate.entered().await;
    service.app.gate.entered().await;
    service.app.gate.open();
    for (key, path, answer) in [("one", "/skew/101", one), ("two", "/skew/102", two)] {
        let mut answer = soon("an answer", answer).await.unwrap();
        // While the winner is still at its COMMIT, its rival loses as often as it is run.
        while answer.status == 503 {
            assert_problem(&answer, 503, "idempotency-contention");
            answer = service.post(path, key, "").await;
        }
        assert_eq!(answer.status, 201, "{}", answer.text());
    }
    let (runs, rows, records) = service.counts().await;
    assert_eq!((rows, records), (2, 2));
    assert!(runs > 2, "{runs}");
    assert_eq!(sum(&service, 101).await + sum(&service, 102).await, 1 + 2, "as if one had come after the other");
}

#[tokio::test]
async fn b39_a_deadlock_is_retried_whole() {
    let service = service().await;
    let keys = [service.posting("/lock/1/2", "one", ""), service.posting("/lock/2/1", "two", "")];
    service.app.gate.entered().await;
    service.app.gate.entered().await;
    service.app.gate.open();
    for key in keys {
        assert_eq!(soon("an answer", key).await.unwrap().status, 201);
    }
    assert_eq!((sum(&service, 1).await, sum(&service, 2).await), (2, 2));
    assert_eq!(service.counts().await, (3, 2, 2));
}

#[tokio::test]
async fn b39_who_always_loses_is_503_and_the_key_stays_free() {
    let brief = |builder: Builder<Db>| builder.database_timeout(Duration::from_secs(1));
    let service = Service::with(routes(), brief).await;
    assert_problem(&service.post("/lose", "k", "").await, 503, "idempotency-contention");
    let (runs, rows, records) = service.counts().await;
    assert!(runs >= 4, "{runs} runs");
    assert_eq!((rows, records), (0, 0));
    assert_eq!(service.post("/pay", "k", "").await.status, 201);
    assert_eq!(service.counts().await, (runs + 1, 1, 1));
    // Without a key, the same.
    assert_problem(&service.send("PUT", "/lose", &[ALICE], "").await, 503, "idempotency-contention");
    let (all, rows, records) = service.counts().await;
    assert!(all >= runs + 5, "{all} runs");
    assert_eq!((rows, records), (1, 1));
}
