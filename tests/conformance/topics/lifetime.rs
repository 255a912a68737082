//! How long a record is replayed, and how expired ones are deleted.
//! Time moves by making records older in the table, never by waiting.

use std::time::Duration;

use axum::{Router, response::IntoResponse, routing::post};
use futures_util::future::join_all;
use idem_tests::soon;

use super::{FILL, RETENTION, app::*};

const HOUR: i64 = 60 * 60;
const DAY: i64 = 24 * HOUR;

fn routes() -> Router<App> {
    Router::new().route("/pay", post(pay)).route("/refund", post(refund)).route("/hold", post(hold))
}

#[tokio::test]
async fn b64_a_record_answers_up_to_its_retention_and_not_beyond_pruned_or_not() {
    for prune in [false, true] {
        let service = Service::start(routes()).await;
        let first = service.post("/pay", "k", "1").await;
        service.age(DAY - 30).await;
        assert_eq!(service.app.idempotency.prune().await.unwrap(), 0);
        assert_replay(&first, &service.post("/pay", "k", "1").await);
        assert_problem(&service.post("/pay", "k", "2").await, 422, "idempotency-key-reuse");
        assert_eq!(service.counts().await, (1, 1, 1));

        service.age(31).await;
        if prune {
            assert_eq!(service.app.idempotency.prune().await.unwrap(), 1);
        }
        let second = service.post("/pay", "k", "1").await;
        assert_eq!((second.text(), second.header("idempotent-replayed")), ("run 2 for alice", None));
        assert_replay(&second, &service.post("/pay", "k", "1").await);
        assert_eq!(service.counts().await, (2, 2, 1));
        let retention: i64 = sqlx::query_scalar(RETENTION).fetch_one(&service.pool).await.unwrap();
        assert_eq!(retention, DAY, "the new record's own");
    }
}

#[tokio::test]
async fn b64_past_its_retention_a_key_is_free_for_any_request() {
    let service = Service::start(routes()).await;
    service.post("/pay", "k", "1").await;
    service.age(DAY + 1).await;
    let second = service.post("/refund", "k", "another").await;
    assert_eq!(second.text(), "refund 2 for alice");
    assert_replay(&second, &service.post("/refund", "k", "another").await);
    assert_problem(&service.post("/pay", "k", "1").await, 422, "idempotency-key-reuse");
    assert_eq!(service.counts().await, (2, 2, 1));
}

#[tokio::test]
async fn b64_a_replay_does_not_make_a_record_younger() {
    let service = Service::start(routes()).await;
    let first = service.post("/pay", "k", "1").await;
    for _ in 0..2 {
        service.age(11 * HOUR).await;
        assert_replay(&first, &service.post("/pay", "k", "1").await);
    }
    service.age(3 * HOUR).await;
    assert_eq!(service.post("/pay", "k", "1").await.text(), "run 2 for alice");
    assert_eq!(service.counts().await, (2, 2, 1));
}

#[tokio::test]
async fn b64_a_running_twin_is_409_past_the_retention_too() {
    let service = Service::of(routes(), 2, plain, || ().into_response()).await;
    service.app.gate.let_one_through();
    service.post("/hold", "k", "1").await;
    service.age(DAY + 1).await;
    service.app.gate.entered().await;
    let second = service.posting("/hold", "k", "1");
    service.app.gate.entered().await;
    assert_problem(&service.post("/hold", "k", "1").await, 409, "in-progress");
    service.app.gate.open();
    assert_eq!(soon("the second", second).await.unwrap().text(), "run 2 for alice");
    assert_eq!(service.counts().await, (2, 2, 1));
}

#[tokio::test]
async fn b64_of_twenty_twins_at_expiry_one_runs_while_pruners_run() {
    for round in 0..5 {
        let service = Service::start(routes()).await;
        let other = service.beside(routes()).await;
        service.post("/pay", "k", "1").await;
        service.age(DAY + 1).await;
        let keys = vec!["k".to_owned(); 20];
        let pruning = async {
            for _ in 0..10 {
                other.app.idempotency.prune().await.unwrap();
            }
        };
        let services = [&service, &other];
        let (answers, ()) = tokio::join!(at_once(&services, "/pay", &keys), pruning);
        let new = |status: u16, replayed: bool| match (status, replayed) {
            (201, false) => 1,
            (201, true) | (409, false) => 0,
            other => panic!("{other:?}"),
        };
        let ran: usize = answers.iter().map(|a| new(a.status, !a.all("idempotent-replayed").is_empty())).sum();
        assert_eq!((ran, service.counts().await), (1, (2, 2, 1)), "round {round}");
    }
}

#[tokio::test]
async fn b65_three_pruners_at_once_delete_each_expired_record_once_and_no_other() {
    let service = Service::start(routes()).await;
    let live = service.post("/pay", "k", "1").await;
    service.execute(FILL).await;
    assert_eq!(service.counts().await, (1, 1, 2501));
    let pruners = [&service, &service.beside(routes()).await, &service.beside(routes()).await];
    let pruned = join_all(pruners.map(|service| service.app.idempotency.prune())).await;
    assert_eq!(pruned.into_iter().map(Result::unwrap).sum::<u64>(), 2500);
    // A pruner skips what another is pruning, so a last one finds nothing only after all are done.
    assert_eq!(service.app.idempotency.prune().await.unwrap(), 0);
    assert_eq!(service.counts().await, (1, 1, 1));
    assert_replay(&live, &service.post("/pay", "k", "1").await);
}

#[tokio::test]
async fn b65_one_call_deletes_more_than_a_batch() {
    let service = Service::start(routes()).await;
    service.execute(FILL).await;
    assert_eq!(service.app.idempotency.prune().await.unwrap(), 2500);
    assert_eq!(service.counts().await, (0, 0, 0));
}

#[tokio::test]
async fn the_background_pruner_prunes_until_it_is_stopped() {
    let service = Service::start(routes()).await;
    service.post("/pay", "k", "1").await;
    let pruner = service.app.idempotency.pruner(Duration::from_millis(1));
    for _ in 0..2 {
        service.execute(FILL).await;
        soon("the pruner's rounds", async { while service.counts().await.2 > 1 {} }).await;
    }
    soon("its end", pruner.stop()).await;
    service.execute(FILL).await;
    assert_eq!(service.counts().await, (1, 1, 2501));

    // One that sleeps for a day ends as soon as it is stopped.
    let pruner = service.app.idempotency.pruner(Duration::from_secs(86_400));
    soon("its first round", async { while service.counts().await.2 > 1 {} }).await;
    soon("its end", pruner.stop()).await;
    assert_eq!(service.counts().await, (1, 1, 1));
}

#[tokio::test]
async fn a_pruner_goes_on_after_a_failure() {
    let service = Service::start(routes()).await;
    service.execute(FILL).await;
    service.execute("ALTER TABLE idem_records RENAME TO elsewhere").await;
    assert!(service.app.idempotency.prune().await.is_err());
    let pruner = service.app.idempotency.pruner(Duration::from_millis(1));
    service.execute("ALTER TABLE elsewhere RENAME TO idem_records").await;
    soon("a round that works", async { while service.counts().await.2 > 0 {} }).await;
    soon("its end", pruner.stop()).await;
}
