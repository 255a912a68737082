//! What is written beside the responses: events, metrics, `Debug`, the table. Operation and outcome are in it;
//! keys, scopes and bodies are nowhere, at any level.

use std::{collections::BTreeMap, time::Duration};

use idem_runtime::{
    Attempt, Idempotency, ScopeId,
    recovery::{BoxError, Reconciler, StalledAttempt, StoredRequest, Verdict},
};
use idem_tests::{
    assertions::code,
    databases::{Postgres, postgres},
    http::{self, RawResponse},
    log_capture::{heard, listen},
    proxy::{Cut, Network, Proxy},
    service::{Service, charge, order},
};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use sqlx::{Executor, Postgres as Db};

mod logs {
    mod external;
}

/// Every key, scope and body below has one of these in it, and nothing else has.
const SECRETS: [&str; 3] = ["key-secret", "scope-secret", "body-secret"];

#[track_caller]
fn assert_no_secret(what: &str, bytes: impl AsRef<[u8]>) {
    let bytes = bytes.as_ref();
    for secret in SECRETS {
        let found = bytes.windows(secret.len()).position(|here| here.eq_ignore_ascii_case(secret.as_bytes()));
        if let Some(at) = found {
            let around = &bytes[at.saturating_sub(300)..bytes.len().min(at + 100)];
            panic!("{secret} in {what}: {}", String::from_utf8_lossy(around));
        }
    }
}

async fn send(service: &Service, key: &str, act: &str) -> RawResponse {
    let key = format!("key-secret-{key}");
    let headers = [("x-account", "scope-secret"), ("idempotency-key", &key)];
    let response = http::post(service.address(), "/act", &headers, order("body-secret", act)).await;
    if code(&response).is_some() {
        assert_no_secret("an answer of idem's own", &response.body);
    }
    response
}

/// One request for each way of being answered, on a service whose database breaks meanwhile.
async fn every_outcome() -> (Postgres, Service, BTreeMap<&'static str, u64>) {
    let database = postgres().await;
    let proxy = Proxy::start(&database).await;
    let pool = database.pool_with(2, proxy.options(&database)).await;
    let service =
        Service::start_with(&database, pool, |builder| builder.database_timeout(Duration::from_millis(500))).await;
    let mut outside = database.connect().await;

    assert_eq!(send(&service, "new", "write").await.status, 201);
    assert_eq!(send(&service, "new", "write").await.status, 201);
    assert_eq!(send(&service, "new", "decline").await.status, 422);
    assert_eq!(send(&service, "a,b", "write").await.status, 400);
    assert_eq!(send(&service, "declined", "decline").await.status, 402);
    assert_eq!(send(&service, "panicked", "panic").await.status, 500);
    assert_eq!(send(&service, "swallowed", "swallow_in_helper").await.status, 500);
    // The database's own error has the value in its details.
    assert_eq!(send(&service, "late", "late").await.status, 500);
    let running = async {
        service.probe.gate.entered().await;
        assert_eq!(send(&service, "running", "wait").await.status, 409);
        service.probe.gate.open();
    };
    assert_eq!(tokio::join!(send(&service, "running", "wait"), running).0.status, 201);
    let _lost = proxy.cut(Cut::After, "COMMIT");
    assert_eq!(send(&service, "unknown", "write").await.status, 503);
    let _lost = proxy.cut(Cut::Before, "INSERT INTO idem_records AS r");
    assert_eq!(send(&service, "lost", "write").await.status, 503);
    outside.execute("UPDATE idem_records SET format = 7").await.unwrap();
    assert_eq!(send(&service, "new", "write").await.status, 500);
    outside.execute("ALTER TABLE idem_records RENAME TO elsewhere").await.unwrap();
    assert_eq!(send(&service, "missing", "write").await.status, 500);
    outside.execute("ALTER TABLE elsewhere RENAME TO idem_records").await.unwrap();
    proxy.set(Network::Down);
    proxy.cut_all().await;
    assert_eq!(send(&service, "down", "write").await.status, 503);

    let outcomes = BTreeMap::from([
        ("stored", 3), // new, declined, running
        ("idempotency-handler-panicked", 1),
        ("replayed", 1),
        ("idempotency-key-reuse", 1),
        ("idempotency-key-malformed", 1),
        ("in-progress", 1),
        ("idempotency-transaction-aborted", 2),
        ("idempotency-outcome-unknown", 1),
        ("idempotency-store-unavailable", 2),
        ("idempotency-record-unreadable", 1),
        ("idempotency-schema", 1),
    ]);
    (database, service, outcomes)
}

#[tokio::test]
async fn b73_events_have_operation_outcome_and_duration_and_no_secret() {
    listen();
    let (_database, _service, outcomes) = every_outcome().await;
    let text = heard();
    assert_no_secret("the log", &text);
    for (outcome, times) in outcomes {
        let said = format!("outcome=\"{outcome}\"");
        let lines: Vec<_> = text.lines().filter(|line| line.contains(&said)).collect();
        assert_eq!(lines.len() as u64, times, "{outcome} in {text}");
        for line in lines {
            assert!(line.contains("operation=\"act\"") && line.contains("duration="), "{line}");
        }
    }
    // The spans are there, and so is why something failed.
    assert!(text.contains("idempotent{operation=\"act\"}"), "{text}");
    assert!(text.contains("ERROR") && text.contains("effects_late"), "{text}");
}

fn recorded(snapshotter: &Snapshotter) -> (BTreeMap<String, u64>, BTreeMap<String, u64>) {
    let (mut counters, mut histograms) = (BTreeMap::new(), BTreeMap::new());
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        let key = key.key();
        assert_no_secret("a metric", format!("{key:?}"));
        let labels: BTreeMap<_, _> = key.labels().map(|label| (label.key(), label.value())).collect();
        assert_eq!(labels.keys().copied().collect::<Vec<_>>(), ["operation", "outcome"]);
        assert_eq!(labels["operation"], "act");
        let outcome = labels["outcome"].to_owned();
        match (key.name(), value) {
            ("idem_requests_total", DebugValue::Counter(times)) => drop(counters.insert(outcome, times)),
            ("idem_request_duration_seconds", DebugValue::Histogram(durations)) => {
                assert!(durations.iter().all(|seconds| seconds.0 > 0.0 && seconds.0 < 600.0), "{durations:?}");
                histograms.insert(outcome, durations.len() as u64);
            }
            (name, value) => panic!("{name}: {value:?}"),
        }
    }
    (counters, histograms)
}

#[tokio::test]
async fn b73_metrics_count_outcomes_and_hold_no_secret() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let (_database, _service, outcomes) = every_outcome().await;
    let (counters, histograms) = recorded(&snapshotter);
    let expected: BTreeMap<_, _> = outcomes.into_iter().map(|(outcome, times)| (outcome.to_owned(), times)).collect();
    assert_eq!(counters, expected);
    assert_eq!(histograms, expected);
}

#[tokio::test]
async fn b73_the_table_holds_no_key_no_scope_and_no_request() {
    let (database, _service, _) = every_outcome().await;
    let mut connection = database.connect().await;
    let mut copy = connection.copy_out_raw("COPY idem_records TO STDOUT (FORMAT binary)").await.unwrap();
    let mut bytes = Vec::new();
    while let Some(chunk) = futures_util::StreamExt::next(&mut copy).await {
        bytes.extend_from_slice(&chunk.unwrap());
    }
    assert!(bytes.windows(8).any(|here| here == b"\"effect\""), "the stored answers are not in what was searched");
    assert_no_secret("the table", &bytes);
}

#[tokio::test]
async fn b73_debug_of_public_types_holds_no_secret() {
    let (database, service, _) = every_outcome().await;
    let scope = ScopeId::new("scope-secret").and("scope-secret");
    let builder = Idempotency::builder(database.pool(1).await);
    let mut debug = format!("{scope:?} {builder:?}");
    debug.push_str(&format!("{:?} {:#?}", builder.build(), service.idempotency));
    assert!(debug.contains("ScopeId") && debug.contains("Idempotency"), "{debug}");
    assert_no_secret("Debug", debug);
}

#[tokio::test]
async fn b83_a_stream_of_duplicates_is_ordinary_and_no_error_of_the_logs() {
    listen();
    let database = postgres().await;
    let service = Service::start(&database).await;
    for _ in 0..10 {
        let consumer = service.idempotency.consumer("receipt").payload("body-secret");
        let told = consumer.once("scope-secret", "key-secret", |_| Box::pin(async { Ok::<_, sqlx::Error>(()) })).await;
        told.unwrap();
    }
    let other = service.idempotency.consumer("receipt").payload("body-secret of another");
    let told = other.once("scope-secret", "key-secret", |_| Box::pin(async { Ok::<_, sqlx::Error>(()) })).await;
    assert_no_secret("Debug and Display", format!("{told:?} {}", told.as_ref().unwrap_err()));
    let text = heard();
    assert_no_secret("the log", &text);
    let of = |outcome: &str| text.lines().filter(|line| line.contains(&format!("outcome=\"{outcome}\""))).count();
    assert_eq!((of("stored"), of("replayed"), of("idempotency-key-reuse")), (1, 9, 1), "{text}");
    // On a busy machine sqlx warns of a slow statement.
    let ours = || text.lines().filter(|line| line.contains(" idem_runtime::"));
    assert!(ours().count() >= 11, "{text}");
    assert!(!ours().any(|line| line.contains("ERROR") || line.contains("WARN")), "{text}");
}
