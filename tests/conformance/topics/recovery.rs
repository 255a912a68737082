//! Recovery: each stalled attempt is decided once, whatever reconcilers and nodes do.
//! Reconcilers stop at gates where two are to meet.

use std::time::Duration;

use axum::{
    http::{StatusCode, header},
    response::IntoResponse,
};
use futures_util::future::join_all;
use idem_runtime::{
    Attempt, Settle,
    recovery::{BoxError, Reconciler, StalledAttempt, SweepReport, Verdict},
};
use idem_tests::{gate::Gate, soon};

use super::{BEGAN, Db, LAPSE, REMAINING, app::*, stalled_attempts::*};

mod sweeps;

#[tokio::test]
async fn a_dead_attempt_is_completed_with_its_rows_and_retries_get_the_verdicts_answer() {
    let service = Service::start(routes()).await;
    let other = service.beside(routes()).await;
    let _dead = service.dead("/charge", &["k"]).await;
    assert_problem(&other.post("/charge", "k", "1").await, 409, "in-progress");
    let recovery = other.app.idempotency.recovery().reconciler("create_charge", ByKey(other.app.clone()));
    assert_eq!(recovery.sweep().await.unwrap(), swept(|s| s.completed = 1));
    let first = other.post("/charge", "k", "1").await;
    assert_eq!(
        (first.status, first.text(), first.header("idempotent-replayed")),
        (201, "by the recovery", Some("true"))
    );
    assert_problem(&other.post("/charge", "k", "2").await, 422, "idempotency-key-reuse");
    assert_eq!((service.counts().await, service.app.network.calls().len()), ((1, 1, 1), 1));
    // It is replayed for the handler's own retention.
    assert!((172_700..=172_900).contains(&service.number(super::RETENTION).await));
    assert_eq!(recovery.sweep().await.unwrap(), SweepReport::default(), "decided once");
}

#[tokio::test]
async fn a_dead_attempt_that_never_executed_frees_its_key() {
    let service = Service::start(routes()).await;
    let attempt = service.posting("/charge", "k", "before the call");
    service.app.gate.entered().await;
    service.execute(LAPSE).await;
    let other = service.beside(routes()).await;
    let recovery = other.app.idempotency.recovery().reconciler("create_charge", ByKey(other.app.clone()));
    assert_eq!(recovery.sweep().await.unwrap(), swept(|s| s.released = 1));
    assert_eq!(service.counts().await, (1, 0, 0));
    service.app.gate.open();
    assert_problem(&attempt.await.unwrap(), 503, "idempotency-outcome-unknown");
    let retry = other.post("/charge", "k", "before the call").await;
    assert_eq!((retry.status, retry.text()), (201, "by the attempt"));
    assert_eq!(service.counts().await, (2, 1, 1));
}

#[tokio::test]
async fn two_nodes_that_sweep_at_once_decide_each_record_once() {
    let service = Service::start(routes()).await;
    let other = service.beside(routes()).await;
    let keys = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    let _dead = service.dead("/charge", &keys).await;
    let sweeps = [&service, &other].map(|node| {
        let recovery = node.recovery(|_, app| {
            app.runs.begin();
            Ok(found())
        });
        tokio::spawn(async move { recovery.sweep().await.unwrap() })
    });
    let swept = join_all(sweeps).await.into_iter().map(Result::unwrap).map(|swept| swept.completed).sum::<u64>();
    assert_eq!(swept, 10);
    assert_eq!(service.counts().await, (20, 10, 10), "ten attempts, ten questions, ten rows");
}

#[tokio::test]
async fn a_reconciler_is_told_what_is_known() {
    let service = Service::start(routes()).await;
    let _dead = service.dead("/charge", &["k"]).await;
    let began = service.number(BEGAN).await;
    for asked in 0..3 {
        let recovery = service.recovery(move |dead, app| {
            assert_eq!((dead.operation(), dead.tries()), ("create_charge", asked));
            assert_eq!(dead.last_error(), (asked > 0).then_some("the network is down: it really is"));
            let since = dead.started_at().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
            assert_eq!(i64::try_from(since).unwrap(), began);
            let request = dead.request().expect("it was stored");
            assert_eq!((request.method().as_str(), request.uri().to_string().as_str()), ("POST", "/charge"));
            assert_eq!(&request.body()[..], b"1");
            assert_eq!(app.network.charges(), 1);
            Err(Box::new(Down(std::io::Error::other("it really is"))))
        });
        assert_eq!(recovery.sweep().await.unwrap(), swept(|s| s.failed = 1));
        service.execute(LAPSE).await;
    }
    let stalled = service.app.idempotency.stalled().await.unwrap();
    assert_eq!((stalled[0].tries(), stalled[0].operation()), (3, "create_charge"));
    assert_eq!(stalled[0].last_error(), Some("the network is down: it really is"));
}

#[derive(Debug, thiserror::Error)]
#[error("the network is down")]
struct Down(#[source] std::io::Error);

#[tokio::test]
async fn a_request_is_stored_only_where_the_handler_asks_for_it_and_only_until_it_is_decided() {
    let service = Service::start(routes()).await;
    let headers = [ALICE, (KEY, "k"), (header::CONTENT_TYPE.as_str(), "application/json")];
    let body = br#"{"a": 1}"#;
    let address = service.address();
    let stored =
        tokio::spawn(async move { idem_tests::http::send(address, "POST", "/charge?dry=1", &headers, body).await });
    service.app.gate.entered().await;
    let _other = service.posting("/other", "k2", "secret");
    service.app.gate.entered().await;
    assert_eq!(service.number("SELECT count(request) FROM idem_records").await, 1);
    service.execute(LAPSE).await;
    let recovery = service.recovery(|dead, _| {
        let request = dead.request().expect("it was stored");
        assert_eq!((request.uri().to_string().as_str(), &request.body()[..]), ("/charge?dry=1", &br#"{"a": 1}"#[..]));
        assert_eq!(request.content_type().unwrap(), "application/json");
        Ok(found())
    });
    assert_eq!(recovery.sweep().await.unwrap(), swept(|s| (s.completed, s.no_reconciler) = (1, 1)));
    assert_eq!(service.number("SELECT count(request) FROM idem_records").await, 0);
    drop(stored);
}

#[tokio::test]
async fn what_cannot_be_told_is_asked_again_after_a_growing_pause() {
    let service = Service::start(routes()).await;
    let _dead = service.dead("/charge", &["k"]).await;
    let (first, longest) = (Duration::from_secs(100), Duration::from_secs(350));
    for pause in [100, 200, 350, 350] {
        let recovery = service.recovery(|_, _| Ok(Verdict::Unknown)).backoff(first, longest);
        assert_eq!(recovery.sweep().await.unwrap(), swept(|s| s.unknown = 1));
        assert_eq!(recovery.sweep().await.unwrap(), SweepReport::default(), "not before the pause is over");
        let left = service.number(REMAINING).await;
        assert!((pause * 1000 - 20_000..=pause * 1000).contains(&left), "{left} of {pause}");
        assert_eq!(service.app.idempotency.stalled().await.unwrap().len(), 1);
        service.execute(LAPSE).await;
    }
    assert_eq!(service.counts().await, (1, 0, 1), "what a reconciler wrote beside `Unknown` is rolled back");
}

#[tokio::test]
async fn a_reconciler_that_errs_panics_or_hangs_harms_no_other_record() {
    let service = Service::start(routes()).await;
    let _dead = service.dead("/charge", &["err", "panic", "hang", "good"]).await;
    let _others = service.dead("/other", &["k1", "k2"]).await;

    /// Behaves by the step key, which is all that tells the records apart.
    struct Moody(App);
    impl Reconciler<Db> for Moody {
        async fn reconcile(&self, _: &StalledAttempt, attempt: &mut Attempt<Db>) -> Result<Verdict, BoxError> {
            let key = attempt.key("charge").to_string();
            let called = self.0.network.calls().iter().position(|call| *call == key);
            // On SQLite a transaction that hangs keeps every other from writing.
            if called == Some(2) && !super::ABORTS {
                std::future::pending::<()>().await;
            }
            write(attempt.transaction().await?, &Account("alice".to_owned())).await;
            match called {
                Some(0) => Err("no".into()),
                Some(1) => panic!("on purpose"),
                Some(2) => std::future::pending().await,
                _ => Ok(found()),
            }
        }
    }
    // Of the one that hangs; the others must be done by then, on a busy machine too.
    let recovery = service.app.idempotency.recovery().reconcile_timeout(Duration::from_secs(3));
    let recovery = recovery
        .reconciler("create_charge", Moody(service.app.clone()))
        .reconciler("other", Moody(service.app.clone()));
    let done = soon("the sweep", async move { recovery.sweep().await.unwrap() }).await;
    assert_eq!(done, swept(|s| (s.completed, s.failed) = (3, 3)));
    assert_eq!(service.counts().await, (6, 3, 6));
    let mut errors: Vec<_> = service
        .app
        .idempotency
        .stalled()
        .await
        .unwrap()
        .into_iter()
        .filter_map(|s| s.last_error().map(str::to_owned))
        .collect();
    errors.sort();
    assert_eq!(errors, ["no", "the reconciler did not return within 3s", "the reconciler panicked"]);
    // The connections that they held are sound.
    for key in ["x", "y", "z", "u", "v"] {
        assert_eq!(service.post("/pay", key, "1").await.status, 201);
    }
}

#[tokio::test]
async fn a_verdict_whose_transaction_cannot_commit_is_asked_for_again() {
    let service = Service::start(routes()).await;
    service
        .execute("CREATE TABLE deferred (payment INTEGER REFERENCES payments (id) DEFERRABLE INITIALLY DEFERRED)")
        .await;
    let _dead = service.dead("/charge", &["k"]).await;

    struct Violates;
    impl Reconciler<Db> for Violates {
        async fn reconcile(&self, _: &StalledAttempt, attempt: &mut Attempt<Db>) -> Result<Verdict, BoxError> {
            let transaction = attempt.transaction().await?;
            sqlx::query("INSERT INTO deferred VALUES (4711)").execute(&mut **transaction).await?;
            Ok(found())
        }
    }
    let recovery = service.app.idempotency.recovery().reconciler("create_charge", Violates);
    assert_eq!(recovery.sweep().await.unwrap(), swept(|s| s.failed = 1));
    assert_eq!(recovery.sweep().await.unwrap(), SweepReport::default(), "not at once");
    assert_eq!(service.counts().await, (1, 0, 1));
    let error = service.app.idempotency.stalled().await.unwrap()[0].last_error().unwrap().to_owned();
    assert!(error.starts_with("the verdict could not be written"), "{error}");
}

#[tokio::test]
async fn records_without_a_reconciler_and_those_asked_too_often_are_reported_and_not_touched() {
    let service = Service::start(routes()).await;
    let _dead = service.dead("/charge", &["k"]).await;
    let _other = service.dead("/other", &["k2"]).await;
    for _ in 0..2 {
        let recovery = service.recovery(|_, _| Ok(Verdict::Unknown)).max_tries(2);
        assert_eq!(recovery.sweep().await.unwrap(), swept(|s| (s.unknown, s.no_reconciler) = (1, 1)));
        service.execute(LAPSE).await;
    }
    let recovery = service.recovery(|_, _| panic!("asked a third time")).max_tries(2);
    assert_eq!(recovery.sweep().await.unwrap(), swept(|s| (s.gave_up, s.no_reconciler) = (1, 1)));
    let nobody = service.app.idempotency.recovery();
    assert_eq!(nobody.sweep().await.unwrap(), swept(|s| s.no_reconciler = 2));
    let stalled = service.app.idempotency.stalled().await.unwrap();
    let listed: Vec<_> = stalled.iter().map(|s| (s.operation(), s.tries())).collect();
    assert_eq!(listed, [("create_charge", 2), ("other", 0)], "in the order in which they began");
    assert_problem(&service.post("/charge", "k", "1").await, 409, "in-progress");
}

#[tokio::test]
async fn the_rows_of_a_verdict_stay_by_the_rule_for_handlers() {
    for (status, mark, rows) in [(402, None, 0), (402, Some(Settle::KeepWrites), 1), (201, Some(Settle::DropWrites), 0)]
    {
        let service = Service::start(routes()).await;
        let _dead = service.dead("/charge", &["k"]).await;
        let recovery = service.recovery(move |_, _| {
            let status = StatusCode::from_u16(status)?;
            Ok(mark.map_or_else(|| Verdict::completed(status), |mark| Verdict::completed((status, mark))))
        });
        assert_eq!(recovery.sweep().await.unwrap(), swept(|s| s.completed = 1));
        assert_eq!(service.counts().await, (1, rows, 1), "{status} {mark:?}");
        assert_eq!(service.beside(routes()).await.post("/charge", "k", "1").await.status, status);
    }
}
