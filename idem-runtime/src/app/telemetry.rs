//! What operators see of requests: one event and, with the feature `metrics`, two series for each response.
//! They hold operation, outcome and duration; never a key, a scope or a body.

use std::time::Instant;

use super::problem::Code;

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
