//! Sweeps as an operator meets them: in the background, with limits without end, with reconcilers that hang, dropped.
//! What one sweep decides is tested by the parent.

use super::*;

#[tokio::test]
async fn the_background_recovery_sweeps_until_it_is_stopped() {
    let service = Service::start(routes()).await;
    let task = service.recovery(|_, _| Ok(found())).run_every(Duration::from_millis(1));
    for key in ["a", "b"] {
        let _dead = service.dead("/charge", &[key]).await;
        let open = "SELECT count(*) FROM idem_records WHERE attempt IS NOT NULL";
        soon("the recovery's rounds", async { while service.number(open).await > 0 {} }).await;
    }
    soon("its end", task.stop()).await;
    let _dead = service.dead("/charge", &["c"]).await;
    assert_eq!(service.app.idempotency.stalled().await.unwrap().len(), 1);

    // Stopped while a reconciler is asked, it lets that end.
    let gate = Gate::new();
    let task = service.gated(&gate, |_, _| Ok(found())).run_every(Duration::from_secs(86_400));
    gate.entered().await;
    let stopping = tokio::spawn(task.stop());
    gate.open();
    soon("its end", stopping).await.unwrap();
    assert!(service.app.idempotency.stalled().await.unwrap().is_empty());
    assert_eq!(service.counts().await.1, 3);
}

#[tokio::test]
async fn limits_and_pauses_without_end_are_no_error() {
    let service = Service::start(routes()).await;
    let _dead = service.dead("/charge", &["k"]).await;
    let unknown = service.recovery(|_, _| Ok(Verdict::Unknown)).backoff(Duration::MAX, Duration::MAX);
    assert_eq!(unknown.reconcile_timeout(Duration::MAX).sweep().await.unwrap(), swept(|s| s.unknown = 1));
    let left = service.number(REMAINING).await;
    assert!(left > 300 * 86_400_000, "{left}");

    let patient =
        Service::of(routes(), 5, |builder| builder.database_timeout(Duration::MAX), || ().into_response()).await;
    let _dead = patient.dead("/charge", &["k"]).await;
    let id = patient.app.idempotency.stalled().await.unwrap()[0].id();
    patient.app.idempotency.resolve(id, "ada", found()).await.unwrap();
}

#[tokio::test]
async fn an_error_whose_text_panics_is_a_reconciler_that_panics() {
    #[derive(Debug)]
    struct NoText;
    impl std::fmt::Display for NoText {
        fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            panic!("on purpose")
        }
    }
    impl std::error::Error for NoText {}

    let service = Service::start(routes()).await;
    let _dead = service.dead("/charge", &["k"]).await;
    let recovery = service.recovery(|_, _| Err(Box::new(NoText)));
    assert_eq!(recovery.sweep().await.unwrap(), swept(|s| s.failed = 1));
    let stalled = service.app.idempotency.stalled().await.unwrap();
    assert_eq!(stalled[0].last_error(), Some("the reconciler panicked"));
}

#[tokio::test]
async fn reconcilers_that_hang_do_not_keep_another_operations_records_waiting() {
    struct Hangs;
    impl Reconciler<Db> for Hangs {
        async fn reconcile(&self, _: &StalledAttempt, _: &mut Attempt<Db>) -> Result<Verdict, BoxError> {
            std::future::pending().await
        }
    }
    let service = Service::start(routes()).await;
    let keys = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    let _hang = service.dead("/charge", &keys).await;
    let _good = service.dead("/other", &["k"]).await;
    let recovery = service.app.idempotency.recovery().reconcile_timeout(Duration::from_secs(3600));
    let recovery = recovery.reconciler("create_charge", Hangs).reconciler("other", ByKey(service.app.clone()));
    let sweeping = tokio::spawn(async move { recovery.sweep().await });
    let open = "SELECT count(*) FROM idem_records WHERE attempt IS NOT NULL AND operation = 'other'";
    soon("the other operation's verdict", async { while service.number(open).await > 0 {} }).await;
    sweeping.abort();
}

#[tokio::test]
async fn a_sweep_that_is_dropped_asks_nothing_more() {
    let service = Service::start(routes()).await;
    let keys = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "l", "m"];
    let _dead = service.dead("/charge", &keys).await;
    let gate = Gate::new();
    let other = service.beside(routes()).await;
    let recovery = other.gated(&gate, |_, _| Ok(found()));
    let sweeping = tokio::spawn(async move { recovery.sweep().await });
    gate.entered().await;
    sweeping.abort();
    let _ = sweeping.await;
    gate.open();
    soon("what is being asked to end", other.app.idempotency.drain(Duration::from_secs(20))).await.unwrap();
    // At most eight are asked at once.
    assert!(service.number("SELECT count(*) FROM idem_records WHERE attempt IS NOT NULL").await >= 4);
}
