//! What operators see: one event and, with the feature `metrics`, two series for each answer; and what recovery finds.
//! Operation, outcome and duration; never a key, a scope or a body.

use std::time::Instant;

use crate::{backend::Survey, problem::Code, reconcile::Dead};

/// How a request was answered. The words are the `outcome` of events and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The handler ran, its answer is stored.
    Stored,
    /// The handler ran, everything was rolled back, the key is free.
    Freed,
    /// The handler ran and failed; its record is left to the recovery.
    Left,
    /// The handler ran without a key.
    Unprotected,
    /// A stored answer was sent again.
    Replayed,
    /// One of idem's own answers.
    Problem(Code),
}

impl Answer {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::Freed => "freed",
            Self::Left => "left",
            Self::Unprotected => "unprotected",
            Self::Replayed => "replayed",
            Self::Problem(code) => code.as_str(),
        }
    }
}

/// Reports an answer, just before it is sent.
pub(crate) fn answered(operation: &'static str, answer: Answer, since: Instant) {
    let duration = since.elapsed();
    tracing::info!(operation, outcome = answer.as_str(), ?duration, "answered");
    #[cfg(feature = "metrics")]
    {
        metrics::counter!("idem_requests_total", "operation" => operation, "outcome" => answer.as_str()).increment(1);
        metrics::histogram!("idem_request_duration_seconds", "operation" => operation, "outcome" => answer.as_str())
            .record(duration.as_secs_f64());
    }
}

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
