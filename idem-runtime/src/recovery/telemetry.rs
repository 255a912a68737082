//! Observability of the recovery: an event and a counter for each record, and a gauge of the stalled attempts.
//! They contain operation, outcome and the record's identifier; never a key, a scope or a body.

use crate::{backend::Survey, recovery::StalledAttempt};

/// Reports the outcome of a try to reconcile a stalled attempt.
pub(crate) fn reconciled(stalled: &StalledAttempt, outcome: &'static str) {
    let tries = stalled.tries() + 1;
    tracing::info!(record = %stalled.id(), operation = stalled.operation(), tries, outcome, "reconciled");
    #[cfg(feature = "metrics")]
    metrics::counter!("idem_reconciled_total", "operation" => stalled.operation().to_owned(), "outcome" => outcome)
        .increment(1);
}

/// Reports how many attempts are stalled when a sweep starts.
pub(crate) fn surveyed(survey: Survey) {
    let Survey { due, no_reconciler, gave_up } = survey;
    if no_reconciler + gave_up > 0 {
        tracing::warn!(
            no_reconciler,
            gave_up,
            "stalled attempts need manual resolution: `Idempotency::stalled` lists them"
        );
    }
    #[cfg(feature = "metrics")]
    for (state, count) in [("due", due), ("no_reconciler", no_reconciler), ("gave_up", gave_up)] {
        #[allow(clippy::cast_precision_loss, reason = "a gauge is a float; 2^52 stalled attempts are unrealistic")]
        metrics::gauge!("idem_stalled_attempts", "state" => state).set(count as f64);
    }
    #[cfg(not(feature = "metrics"))]
    let _ = due;
}
