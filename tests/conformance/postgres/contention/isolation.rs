//! Strict isolation levels, deadlocks, and who always loses: what the database refuses is run again, or is a 503.
//! Each test has two transactions that cannot both commit.

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

#[tokio::test]
async fn b39_a_serialization_failure_in_the_handler_is_retried_whole() {
    let service = service().await;
    let keys = [service.posting("/add", "one", ""), service.posting("/add", "two", "")];
    // Both have their snapshots; whoever updates second cannot serialize.
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
    let service = service().await;
    assert_problem(&service.post("/lose", "k", "").await, 503, "idempotency-contention");
    assert_eq!(service.counts().await, (4, 0, 0));
    assert_eq!(service.post("/pay", "k", "").await.status, 201);
    assert_eq!(service.counts().await, (5, 1, 1));
    // Without a key, the same.
    assert_problem(&service.send("PUT", "/lose", &[ALICE], "").await, 503, "idempotency-contention");
    assert_eq!(service.counts().await, (9, 1, 1));
}
