//! Events, lists and tables of attempts with external effects, their recovery and manual decisions: no secret in any.
//! A request is in the table only where its handler stores it, and only until it is decided.

use crate::*;

/// A charge with a secret key, scope and body; the step key that the network got is one more.
async fn charge(service: &Service, path: &str, key: &str, act: &str) -> RawResponse {
    let key = format!("key-secret-{key}");
    let headers = [("x-account", "scope-secret"), ("idempotency-key", &key)];
    http::post(service.address(), path, &headers, order("body-secret", act)).await
}

/// Tells, in its `Debug`, all that a reconciler is lent, and then fails.
struct Shows(std::sync::Arc<std::sync::Mutex<String>>);

impl Reconciler<Db> for Shows {
    async fn reconcile(&self, dead: &StalledAttempt, attempt: &mut Attempt<Db>) -> Result<Verdict, BoxError> {
        let request: &StoredRequest = dead.request().expect("it was stored");
        assert!(request.body().windows(11).any(|here| here == b"body-secret"));
        let verdict = Verdict::completed("an answer");
        let shown = format!("{dead:?} {dead:#?} {attempt:?} {:?} {request:?} {verdict:?}", attempt.key("charge"));
        self.0.lock().unwrap().push_str(&shown);
        Err("the network is down".into())
    }
}

#[tokio::test]
async fn b73_leases_recoveries_and_decisions_by_hand_are_told_of_without_a_secret() {
    listen();
    let database = postgres().await;
    let service = Service::start(&database).await;
    let mut outside = database.connect().await;
    let lapse = "UPDATE idem_records SET lease_until = clock_timestamp() WHERE attempt IS NOT NULL";

    assert_eq!(charge(&service, "/charge", "new", "write").await.status, 201);
    assert_eq!(charge(&service, "/charge", "nothing", "nothing").await.status, 400);
    assert_eq!(charge(&service, "/doubt", "left", "fail").await.status, 502);
    // An attempt that is taken from and comes back.
    let address = service.address();
    let first = tokio::spawn(async move {
        let headers = [("x-account", "scope-secret"), ("idempotency-key", "key-secret-lost")];
        http::post(address, "/charge", &headers, order("body-secret", "wait")).await
    });
    service.probe.gate.entered().await;
    outside.execute(lapse).await.unwrap();
    let shown = std::sync::Arc::default();
    let failing = service.idempotency.recovery().reconciler("doubt", Shows(std::sync::Arc::clone(&shown)));
    let swept = failing.sweep().await.unwrap();
    assert_eq!((swept.failed, swept.no_reconciler), (1, 1));
    let recovery = charge::recovery(&service.idempotency, &service.probe.network);
    let swept = recovery.sweep().await.unwrap();
    assert_eq!(swept.completed, 1);
    service.probe.gate.open();
    assert_eq!(first.await.unwrap().status, 503);
    let [stalled] = &service.idempotency.stalled().await.unwrap()[..] else { panic!("one is left") };
    service.idempotency.resolve(stalled.id(), "grace@example.com", Verdict::NeverExecuted).await.unwrap();
    let again =
        service.idempotency.resolve(stalled.id(), "grace@example.com", Verdict::NeverExecuted).await.unwrap_err();

    let text = heard();
    let id = stalled.id().to_string();
    let line = |parts: &[&str]| {
        let found = text.lines().any(|line| parts.iter().all(|part| line.contains(part)));
        assert!(found, "no line with {parts:?} in {text}");
    };
    line(&["ERROR", "a reconciler failed", &id, "operation=\"doubt\"", "the network is down"]);
    line(&["INFO", "reconciled", &id, "operation=\"doubt\"", "outcome=\"failed\"", "tries=1"]);
    line(&["INFO", "reconciled", "operation=\"charge\"", "outcome=\"completed\"", "tries=1"]);
    line(&["WARN", "stalled attempts need manual resolution", "no_reconciler=1"]);
    line(&["WARN", "an attempt has lost its lease"]);
    line(&[
        "INFO",
        "resolved manually",
        &id,
        "by=\"grace@example.com\"",
        "verdict=\"never executed\"",
        "outcome=\"written\"",
        "operation=\"doubt\"",
    ]);
    line(&["operation=\"doubt\"", "outcome=\"pending\""]);
    line(&["operation=\"charge\"", "outcome=\"released\""]);
    line(&["operation=\"charge\"", "outcome=\"idempotency-outcome-unknown\""]);

    let debug =
        format!("{stalled:?} {recovery:?} {swept:?} {again:?} {:?} {:?}", service.idempotency, shown.lock().unwrap());
    for name in ["StalledAttempt", "Recovery", "SweepReport", "Attempt", "StepKey", "StoredRequest", "RecordId"] {
        assert!(debug.contains(name), "{name} is not in {debug}");
    }
    let steps = service.probe.network.calls();
    assert_eq!(steps.len(), 3);
    for (what, text) in [("the log", &text), ("Debug", &debug)] {
        assert_no_secret(what, text);
        for step in &steps {
            assert!(!text.contains(step.as_str()), "a step key in {what}");
        }
    }
}

#[tokio::test]
async fn b73_the_table_holds_a_request_only_where_the_handler_stores_it_and_only_until_it_is_decided() {
    let database = postgres().await;
    let service = Service::start(&database).await;
    assert_eq!(charge(&service, "/charge", "new", "alone").await.status, 201);
    assert_eq!(charge(&service, "/doubt", "left", "fail").await.status, 502);
    let mut outside = database.connect().await;
    let stored: Vec<u8> = sqlx::query_scalar("SELECT request FROM idem_records WHERE request IS NOT NULL")
        .fetch_one(&mut outside)
        .await
        .unwrap();
    assert!(stored.windows(11).any(|here| here == b"body-secret"));
    assert!(!stored.windows(10).any(|here| here == b"key-secret"), "of the headers only the content type is stored");
    assert_eq!(service.sweep().await.completed, 1);
    // Of the answers, the handler's own says what was charged: that is the application's.
    outside.execute("UPDATE idem_records SET body = ''").await.unwrap();
    let mut copy = outside.copy_out_raw("COPY idem_records TO STDOUT (FORMAT binary)").await.unwrap();
    let mut bytes = Vec::new();
    while let Some(chunk) = futures_util::StreamExt::next(&mut copy).await {
        bytes.extend_from_slice(&chunk.unwrap());
    }
    assert!(bytes.windows(5).any(|here| here == b"doubt"), "the records are not in what was searched");
    assert_no_secret("the table", &bytes);
}
