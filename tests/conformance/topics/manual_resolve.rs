//! What a person does about stalled attempts: lists them, and decides one manually.
//! Against live attempts, beside a reconciler that is being asked, and with a client that gives up.

use axum::{http::StatusCode, response::IntoResponse};
use idem_runtime::recovery::{ResolveError, SweepReport, Verdict};
use idem_tests::gate::Gate;

use super::{Db, LAPSE, app::*, stalled_attempts::*};

#[tokio::test]
async fn a_person_decides_a_stalled_record() {
    let service = Service::start(routes()).await;
    let idempotency = &service.app.idempotency;
    let _dead = service.dead("/charge", &["done", "not", "ask"]).await;
    let ids: Vec<_> = idempotency.stalled().await.unwrap().into_iter().map(|stalled| stalled.id()).collect();
    let same = ids[0].to_string().parse().unwrap();
    assert_eq!(ids[0], same);

    idempotency.resolve(same, "ada@example.com", found()).await.unwrap();
    idempotency.resolve(ids[1], "ada@example.com", Verdict::NeverExecuted).await.unwrap();
    service.recovery(|_, _| Ok(Verdict::Unknown)).max_tries(1).sweep().await.unwrap();
    idempotency.resolve(ids[2], "ada@example.com", Verdict::Unknown).await.unwrap();

    assert_eq!(service.beside(routes()).await.post("/charge", "done", "1").await.text(), "by the recovery");
    assert_eq!(service.counts().await, (3, 0, 2));
    let asked_again = service.recovery(|dead, _| {
        assert_eq!(dead.tries(), 0);
        Ok(found())
    });
    assert_eq!(asked_again.max_tries(1).sweep().await.unwrap(), swept(|s| s.completed = 1));
    for id in ids {
        let again = idempotency.resolve(id, "ada@example.com", Verdict::NeverExecuted).await;
        assert!(matches!(again, Err(ResolveError::NotStalled)), "{again:?}");
    }
    assert_eq!(service.counts().await, (3, 1, 2));
}

#[tokio::test]
async fn a_live_attempt_is_neither_taken_nor_resolved() {
    let service = Service::start(routes()).await;
    let attempt = service.posting("/charge", "k", "1");
    service.app.gate.entered().await;
    assert!(service.app.idempotency.stalled().await.unwrap().is_empty());
    assert_eq!(service.recovery(|_, _| Ok(found())).sweep().await.unwrap(), SweepReport::default());
    service.execute(LAPSE).await;
    let id = service.app.idempotency.stalled().await.unwrap()[0].id();
    service.execute(super::HALF_A_MINUTE).await;
    let early = service.app.idempotency.resolve(id, "ada", Verdict::NeverExecuted).await;
    assert!(matches!(early, Err(ResolveError::NotStalled)), "{early:?}");
    service.app.gate.open();
    assert_eq!(attempt.await.unwrap().text(), "by the attempt");
}

#[tokio::test]
async fn a_person_who_decides_while_a_reconciler_is_asked_has_the_last_word() {
    let service = Service::start(routes()).await;
    let _dead = service.dead("/charge", &["k"]).await;
    let gate = Gate::new();
    let recovery = service.gated(&gate, |_, _| Ok(found()));
    let sweeping = tokio::spawn(async move { recovery.sweep().await.unwrap() });
    gate.entered().await;
    let stalled = service.app.idempotency.stalled().await.unwrap();
    let verdict = Verdict::completed((StatusCode::OK, "by hand"));
    service.app.idempotency.resolve(stalled[0].id(), "ada", verdict).await.unwrap();
    gate.open();
    assert_eq!(sweeping.await.unwrap(), swept(|s| s.failed = 1));
    assert_eq!(service.beside(routes()).await.post("/charge", "k", "1").await.text(), "by hand");
    assert_eq!(service.counts().await, (1, 0, 1), "the reconciler's row is not there");
}

#[tokio::test]
async fn a_verdict_that_cannot_be_stored_changes_nothing() {
    let defaults = |builder: idem_runtime::Builder<Db>| builder.max_response(10);
    let service = Service::with(routes(), defaults).await;
    let _dead = service.dead("/charge", &["k"]).await;
    let id = service.app.idempotency.stalled().await.unwrap()[0].id();
    let long = service.app.idempotency.resolve(id, "ada", Verdict::completed("longer than ten")).await;
    assert!(matches!(long, Err(ResolveError::Response(_))), "{long:?}");
    let recovery = service.recovery(|_, _| Ok(Verdict::completed("longer than ten")));
    assert_eq!(recovery.sweep().await.unwrap(), swept(|s| s.failed = 1));
    assert_eq!(service.counts().await, (1, 0, 1));
    service.app.idempotency.resolve(id, "ada", Verdict::completed("short")).await.unwrap();
}

/// Makes a record one that a stalled attempt left, of the handler `charge`.
const UNDECIDED: &str = "UPDATE idem_records SET attempt = substr(id, 1, 16), lease_until = created_at";

#[tokio::test]
async fn a_person_who_gives_up_on_deciding_leaves_no_connection_inside_a_transaction() {
    for polls in (1..10).cycle().take(27) {
        let service = Service::of(routes(), 1, plain, || ().into_response()).await;
        service.app.gate.open();
        let other = service.beside(routes()).await;
        service.post("/charge", "k", "1").await;
        service.execute(UNDECIDED).await;
        let id = service.app.idempotency.stalled().await.unwrap()[0].id();
        cut(polls, service.app.idempotency.resolve(id, "ada", Verdict::Unknown)).await;
        assert_eq!(service.post("/charge", "k2", "1").await.status, 201);
        assert_eq!(other.counts().await, (2, 2, 2), "{polls}: what was answered is committed");
    }
}
