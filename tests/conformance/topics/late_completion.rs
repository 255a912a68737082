//! Attempts that come back after their lease has expired: an attempt that is too late changes nothing (b62).
//! Before anybody asked, while a reconciler is asked, and after each kind of verdict.

use futures_util::future::join_all;
use idem_runtime::recovery::{SweepReport, Verdict};
use idem_tests::gate::Gate;

use super::{LAPSE, app::*, stalled_attempts::*};

#[tokio::test]
async fn b62_an_attempt_that_comes_back_after_the_verdict_changes_nothing() {
    let service = Service::start(routes()).await;
    let attempts = service.dead("/charge", &["k"]).await;
    let recovery = service.recovery(|_, _| Ok(found()));
    assert_eq!(recovery.sweep().await.unwrap(), swept(|s| s.completed = 1));
    service.app.gate.open();
    for attempt in join_all(attempts).await {
        assert_problem(&attempt.unwrap(), 503, "idempotency-outcome-unknown");
    }
    let replay = service.post("/charge", "k", "1").await;
    assert_eq!((replay.text(), replay.header("idempotent-replayed")), ("by the recovery", Some("true")));
    assert_eq!((service.counts().await, service.app.network.charges()), ((1, 1, 1), 1));
}

#[tokio::test]
async fn b62_an_attempt_that_comes_back_before_the_verdict_is_given_loses_too() {
    let service = Service::start(routes()).await;
    let attempts = service.dead("/charge", &["k"]).await;
    let gate = Gate::new();
    let recovery = service.gated(&gate, |_, _| Ok(found()));
    let sweeping = tokio::spawn(async move { recovery.sweep().await });
    gate.entered().await;
    // The record is the recovery's now: of two who decide, the database lets only one write.
    service.app.gate.open();
    for attempt in join_all(attempts).await {
        assert_problem(&attempt.unwrap(), 503, "idempotency-outcome-unknown");
    }
    assert_eq!(service.counts().await, (1, 0, 1));
    gate.open();
    assert_eq!(sweeping.await.unwrap().unwrap(), swept(|s| s.completed = 1));
    assert_eq!(service.post("/charge", "k", "1").await.text(), "by the recovery");
    assert_eq!(service.counts().await, (1, 1, 1));
}

#[tokio::test]
async fn b62_an_attempt_that_comes_back_before_anybody_asked_completes() {
    let service = Service::start(routes()).await;
    let attempts = service.dead("/charge", &["k"]).await;
    service.app.gate.open();
    for attempt in join_all(attempts).await {
        assert_eq!(attempt.unwrap().text(), "by the attempt");
    }
    assert_eq!(service.recovery(|_, _| Ok(found())).sweep().await.unwrap(), SweepReport::default());
    assert_eq!(service.counts().await, (1, 1, 1));
}

#[tokio::test]
async fn b62_an_attempt_that_comes_back_after_an_unknown_verdict_has_lost_its_lease() {
    let service = Service::start(routes()).await;
    let attempts = service.dead("/charge", &["k"]).await;
    assert_eq!(service.recovery(|_, _| Ok(Verdict::Unknown)).sweep().await.unwrap(), swept(|s| s.unknown = 1));
    service.app.gate.open();
    for attempt in join_all(attempts).await {
        assert_problem(&attempt.unwrap(), 503, "idempotency-outcome-unknown");
    }
    assert_eq!(service.counts().await, (1, 0, 1), "neither row is there, and the key is not free");
    service.execute(LAPSE).await;
    assert_eq!(service.recovery(|_, _| Ok(found())).sweep().await.unwrap(), swept(|s| s.completed = 1));
    assert_eq!(service.counts().await, (1, 1, 1));
}
