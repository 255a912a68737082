//! Settings that can do nothing useful are refused where they are set: zero periods, zero limits, names that cannot be stored.
//! Each refusal is a panic that names the setting.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use axum::{Router, routing::post};
use idem_runtime::{Idempotency, options::InProgress};

use super::{app::*, stalled_attempts::ByKey};

const ZERO: Duration = Duration::ZERO;
const SOME: Duration = Duration::from_secs(1);

/// The text of the panic with which a setting is refused.
fn refusal<T>(set: impl FnOnce() -> T) -> String {
    match catch_unwind(AssertUnwindSafe(set)) {
        Ok(_) => "accepted".to_owned(),
        Err(panic) => *panic.downcast::<String>().expect("a text"),
    }
}

#[tokio::test]
async fn zeros_are_refused_where_they_are_set() {
    let service = Service::start(Router::new().route("/pay", post(pay))).await;
    let idempotency = &service.app.idempotency;
    let builder = || Idempotency::builder(service.pool.clone());
    let recovery = || idempotency.recovery();
    for (refused, text) in [
        (refusal(|| builder().database_timeout(ZERO)), "`database_timeout` must be longer than zero"),
        (refusal(|| builder().in_progress(InProgress::Wait(ZERO))), "`in_progress` must be longer than zero"),
        (refusal(|| builder().max_response(0)), "`max_response` must be at least one"),
        (refusal(|| idempotency.pruner(ZERO)), "`pruner` must be longer than zero"),
        (refusal(|| recovery().run_every(ZERO)), "`run_every` must be longer than zero"),
        (refusal(|| recovery().backoff(ZERO, SOME)), "`backoff` must be longer than zero"),
        (refusal(|| recovery().backoff(SOME, ZERO)), "`backoff` must be longer than zero"),
        (refusal(|| recovery().reconcile_timeout(ZERO)), "`reconcile_timeout` must be longer than zero"),
        (refusal(|| recovery().max_tries(0)), "`max_tries` must be at least one"),
        (refusal(|| recovery().max_response(0)), "`max_response` must be at least one"),
    ] {
        assert_eq!(refused, text);
    }
    assert_eq!(
        refusal(|| builder().database_timeout(SOME).max_response(1).in_progress(InProgress::Reject)),
        "accepted"
    );
}

#[tokio::test]
async fn names_that_cannot_be_stored_are_refused_where_they_enter() {
    let service = Service::start(Router::new().route("/pay", post(pay))).await;
    let idempotency = &service.app.idempotency;
    let long = "x".repeat(129);
    for name in ["", "two words", "é", "line\n", &long] {
        let text =
            format!("invalid operation {name:?}: expected 1 to 128 visible ASCII characters, such as \"payment\"");
        let reconciler = ByKey(service.app.clone());
        assert_eq!(refusal(|| idempotency.recovery().reconciler(name, reconciler)), text);
        let name: &'static str = name.to_owned().leak();
        assert_eq!(refusal(|| idempotency.consumer(name)), text);
    }
    assert_eq!(refusal(|| idempotency.consumer("pay/v2")), "accepted");
}
