//! Effects that live elsewhere, and the store breaks at each statement around them. The network is charged once; what became
//! of it is known to the recovery at the latest, and a retry never runs a body again whose fate is open.

use std::{future::Future, time::Duration};

use idem_tests::{
    assertions::{assert_problem, assert_ran, assert_replayed, count, records, rows},
    databases::{Postgres, postgres},
    log_capture::{heard, listen},
    proxy::{Cut, Network, Proxy},
    service::{Service, prepare},
    soon,
};
use sqlx::{AssertSqlSafe, Connection, Executor, postgres::PgPoolOptions};
use tokio::time::timeout;

mod unavailable;

const PATIENCE: Duration = Duration::from_millis(700);
const UNAVAILABLE: &str = "idempotency-store-unavailable";
const UNKNOWN: &str = "idempotency-outcome-unknown";

const LEASE: &str = "WITH held AS MATERIALIZED";
const COMPLETE: &str = "UPDATE idem_records SET format";
const RENEW: &str = "UPDATE idem_records SET lease_until";
const RELEASE: &str = "DELETE FROM idem_records WHERE id = $1 AND attempt";

/// Ends every lease, at this very moment.
const LAPSE: &str = "UPDATE idem_records SET lease_until = clock_timestamp() WHERE attempt IS NOT NULL";

async fn bounded<F: Future>(answer: F) -> F::Output {
    timeout(Duration::from_secs(8), answer).await.expect("an answer in bounded time")
}

async fn proxied() -> (Postgres, Proxy, Service) {
    let database = postgres().await;
    let proxy = Proxy::start(&database).await;
    let pool = database.pool_with(3, proxy.options(&database)).await;
    let service = Service::start_with(&database, pool, |builder| builder.database_timeout(PATIENCE)).await;
    // Prepared, so that a cut meets a running service.
    assert_ran(&service.charge("/charge", "warm", "write").await);
    (database, proxy, service)
}

async fn in_progress(database: &Postgres) -> i64 {
    count(database, "idem_records WHERE attempt IS NOT NULL").await
}

async fn until(what: &str, condition: impl AsyncFn() -> bool) {
    let met = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(what, met).await;
}

#[tokio::test]
async fn a_claim_whose_connection_breaks_is_sent_again_and_meets_its_own_record() {
    for cut in [Cut::Before, Cut::After] {
        let (database, proxy, service) = proxied().await;
        let trap = proxy.cut(cut, LEASE);
        assert_ran(&service.charge("/charge", "k", "write").await);
        trap.sprung().await;
        assert_replayed(&service.charge("/charge", "k", "write").await);
        assert_eq!((service.runs(), service.probe.network.charges()), (2, 2), "{cut:?}");
        assert_eq!((rows(&database, "k").await, records(&database).await, in_progress(&database).await), (1, 2, 0));
    }
}

#[tokio::test]
async fn a_claim_whose_connection_breaks_twice_runs_nothing_and_holds_no_key() {
    for cuts in
        [[Cut::Before, Cut::Before], [Cut::After, Cut::Before], [Cut::Before, Cut::After], [Cut::After, Cut::After]]
    {
        let (database, proxy, service) = proxied().await;
        let traps = cuts.map(|cut| proxy.cut(cut, LEASE));
        assert_problem(&bounded(service.charge("/charge", "k", "write")).await, 503, UNAVAILABLE);
        for trap in traps {
            trap.sprung().await;
        }
        assert_eq!(service.runs(), 1, "{cuts:?}");
        until("the record of a claim that nobody got", async || in_progress(&database).await == 0).await;
        assert_ran(&service.charge("/charge", "k", "write").await);
        assert_eq!((service.runs(), rows(&database, "k").await, records(&database).await), (2, 1, 2), "{cuts:?}");
    }
}

#[tokio::test]
async fn a_claim_that_is_granted_too_late_is_given_back() {
    let (database, proxy, service) = proxied().await;
    let (claim, back) = (proxy.hold(LEASE), proxy.hold(RELEASE));
    assert_problem(&bounded(service.charge("/charge", "k", "write")).await, 503, UNAVAILABLE);
    claim.sprung().await;
    assert_eq!((service.runs(), in_progress(&database).await), (1, 0));
    claim.release();
    back.sprung().await;
    assert_eq!(in_progress(&database).await, 1, "granted to nobody");
    back.release();
    until("the key to be free", async || in_progress(&database).await == 0).await;
    assert_ran(&service.charge("/charge", "k", "write").await);
    assert_eq!((service.runs(), rows(&database, "k").await, records(&database).await), (2, 1, 2));
}

/// What is left in progress is decided by the network, once; then every retry gets that answer.
async fn decided_by_recovery(database: &Postgres, service: &Service, key: &str, act: &str) {
    assert_problem(&service.charge("/charge", key, act).await, 409, "in-progress");
    assert_eq!(in_progress(database).await, 1);
    assert_eq!(service.sweep().await.completed, 1);
    let replay = service.charge("/charge", key, act).await;
    assert_eq!((replay.status, replay.text()), (201, "by the recovery"));
    assert_replayed(&replay);
    assert_eq!((in_progress(database).await, rows(database, "recovered").await), (0, 1));
}

#[tokio::test]
async fn b44_b77_a_connection_lost_at_the_completion_is_unknown_and_nothing_runs_again() {
    for (cut, statement, act, committed) in [
        (Cut::Before, COMPLETE, "write", false),
        (Cut::After, COMPLETE, "write", false),
        (Cut::Before, "COMMIT", "write", false),
        (Cut::After, "COMMIT", "write", true),
        (Cut::Before, COMPLETE, "alone", false),
        (Cut::After, COMPLETE, "alone", true),
        (Cut::Before, "ROLLBACK TO SAVEPOINT", "decline", false),
        (Cut::Before, COMPLETE, "decline", false),
        (Cut::After, COMPLETE, "decline", true),
    ] {
        let (database, proxy, service) = proxied().await;
        let trap = proxy.cut(cut, statement);
        assert_problem(&bounded(service.charge("/charge", "k", act)).await, 503, UNKNOWN);
        trap.sprung().await;
        let written = i64::from(committed && act == "write");
        assert_eq!(rows(&database, "k").await, written, "{cut:?} {statement} {act}");
        if committed {
            let replay = service.charge("/charge", "k", act).await;
            assert_eq!(replay.header("idempotent-replayed"), Some("true"), "{cut:?} {statement} {act}");
            assert_eq!(service.sweep().await, idem_runtime::recovery::SweepReport::default());
        } else {
            decided_by_recovery(&database, &service, "k", act).await;
        }
        assert_eq!(service.charge("/charge", "k", act).await.header("idempotent-replayed"), Some("true"));
        assert_eq!((service.runs(), service.probe.network.calls().len()), (2, 2), "{cut:?} {statement} {act}");
        assert_eq!(
            rows(&database, "k").await + rows(&database, "recovered").await,
            if act == "write" { 1 } else { i64::from(!committed) }
        );
    }
}

#[tokio::test]
async fn a_completion_that_hangs_is_unknown_in_bounded_time_and_stands_if_it_arrives() {
    for (statement, act) in [(COMPLETE, "alone"), ("COMMIT", "write")] {
        let (database, proxy, service) = proxied().await;
        let trap = proxy.hold(statement);
        assert_problem(&bounded(service.charge("/charge", "k", act)).await, 503, UNKNOWN);
        trap.sprung().await;
        trap.release();
        until("the completion", async || in_progress(&database).await == 0).await;
        assert_replayed(&service.charge("/charge", "k", act).await);
        assert_eq!((service.runs(), rows(&database, "k").await), (2, i64::from(act == "write")));
    }
}

#[tokio::test]
async fn a_renewal_that_is_lost_is_made_up_for_by_the_next() {
    for cut in [Cut::Before, Cut::After] {
        let (database, proxy, service) = proxied().await;
        let trap = proxy.cut(cut, RENEW);
        let first = service.begin_charge("/brief", "k", "wait");
        service.probe.gate.entered().await;
        trap.sprung().await;
        let renewed = "idem_records WHERE attempt IS NOT NULL AND lease_until > created_at + interval '600 ms'";
        until("a later renewal", async || count(&database, renewed).await == 1).await;
        service.probe.gate.open();
        assert_ran(&first.await.unwrap());
        assert_eq!((service.runs(), rows(&database, "k").await, in_progress(&database).await), (2, 1, 0));
    }
}

#[tokio::test]
async fn a_database_that_is_down_at_the_completion_leaves_the_record_to_the_recovery() {
    for act in ["wait", "wait_alone"] {
        let (database, proxy, service) = proxied().await;
        let first = service.begin_charge("/charge", "k", act);
        service.probe.gate.entered().await;
        proxy.set(Network::Down);
        proxy.cut_all().await;
        service.probe.gate.open();
        assert_problem(&bounded(first).await.unwrap(), 503, UNKNOWN);
        assert_eq!(in_progress(&database).await, 1);
        proxy.set(Network::Up);
        // Its lease could not be ended, so it runs out by itself: until then nobody decides.
        assert_eq!(service.sweep().await, idem_runtime::recovery::SweepReport::default());
        database.connect().await.execute(LAPSE).await.unwrap();
        decided_by_recovery(&database, &service, "k", act).await;
        assert_eq!((service.runs(), service.probe.network.calls().len(), rows(&database, "k").await), (2, 2, 0));
    }
}

#[tokio::test]
async fn a_verdict_whose_connection_breaks_is_asked_for_again_or_stands() {
    for (cut, statement, stands) in [
        (Cut::Before, COMPLETE, false),
        (Cut::After, COMPLETE, false),
        (Cut::Before, "COMMIT", false),
        (Cut::After, "COMMIT", true),
    ] {
        listen();
        let (database, proxy, service) = proxied().await;
        assert_eq!(service.charge("/doubt", "k", "fail").await.status, 502);
        let recovery = idem_tests::service::charge::recovery(&service.idempotency, &service.probe.network)
            .backoff(Duration::from_secs(60), Duration::from_secs(60));
        // The take has a COMMIT of its own: the trap for the verdict's is armed once it is through.
        let held = proxy.hold("SET LOCAL idem.attempt");
        let sweeping = tokio::spawn(async move { recovery.sweep().await });
        held.sprung().await;
        let trap = proxy.cut(cut, statement);
        held.release();
        let swept = soon("the sweep", sweeping).await.unwrap().unwrap();
        trap.sprung().await;
        assert_eq!((swept.completed, swept.failed), (0, 1), "{cut:?} {statement}");
        assert_eq!(rows(&database, "recovered").await, i64::from(stands), "{cut:?} {statement}");
        assert_eq!(service.sweep().await, idem_runtime::recovery::SweepReport::default(), "not at once");
        if !stands {
            let stalled = service.idempotency.stalled().await.unwrap();
            let error = stalled[0].last_error().unwrap();
            assert!(error.starts_with("the verdict could not be written"), "{error}");
            database.connect().await.execute(LAPSE).await.unwrap();
            assert_eq!(service.sweep().await.completed, 1);
        }
        assert_eq!(service.charge("/doubt", "k", "fail").await.text(), "by the recovery");
        assert_eq!((service.runs(), rows(&database, "recovered").await, in_progress(&database).await), (2, 1, 0));
        assert!(heard().contains("reconciled"));
    }
}
