//! What operators see of the recovery: an event and a counter for each record, and a gauge of the stalled attempts.
//! They hold operation, outcome and the record's identifier; never a key, a scope or a body.

use crate::{backend::Survey, recovery::reconcile::Dead};

/// Reports what came of asking about a dead attempt.
pub(crate) fn reconciled(dead: &Dead, outcome: &'static str) {
    let asked = dead.asked() + 1;
    tracing::info!(record = %dead.id(), operation = dead.operation(), asked, outcome, "reconciled");
    #[cfg(feature = "metrics")]
    metrics::counter!("idem_reconciled_total", "operation" => dead.operation().to_owned(), "outcome" => outcome)
        .increment(1);
}

/// Reports how many attempts are dead when a sweep begins.
pub(crate) fn surveyed(survey: Survey) {
    let Survey { due, unattended, exhausted } = survey;
    if unattended + exhausted > 0 {
        tracing::warn!(unattended, exhausted, "dead attempts wait for a person: `Idempotency::stalled` lists them");
    }
    #[cfg(feature = "metrics")]
    for (state, count) in [("due", due), ("unattended", unattended), ("exhausted", exhausted)] {
        #[allow(clippy::cast_precision_loss, reason = "a gauge is a float, and nobody has 2^52 dead attempts")]
        metrics::gauge!("idem_dead_attempts", "state" => state).set(count as f64);
    }
    #[cfg(not(feature = "metrics"))]
    let _ = due;
}
