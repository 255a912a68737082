//! What operators see of the recovery: an event and a counter for each record, and a gauge of the stalled attempts.
//! They hold operation, outcome and the record's identifier; never a key, a scope or a body.

use crate::{backend::Survey, recovery::StalledAttempt};

/// Reports what came of asking about a dead attempt.
pub(crate) fn reconciled(stalled: &StalledAttempt, outcome: &'static str) {
    let tries = stalled.tries() + 1;
    tracing::info!(record = %stalled.id(), operation = stalled.operation(), tries, outcome, "reconciled");
    #[cfg(feature = "metrics")]
    metrics::counter!("idem_reconciled_total", "operation" => stalled.operation().to_owned(), "outcome" => outcome)
        .increment(1);
}

/// Reports how many attempts are dead when a sweep begins.
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
        #[allow(clippy::cast_precision_loss, reason = "a gauge is a float, and nobody has 2^52 dead attempts")]
        metrics::gauge!("idem_stalled_attempts", "state" => state).set(count as f64);
    }
    #[cfg(not(feature = "metrics"))]
    let _ = due;
}
