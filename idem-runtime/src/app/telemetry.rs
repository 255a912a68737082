//! Observability of requests: one event and, with the feature `metrics`, two series for each response.
//! `tests/house/outcomes.rs` holds the outcomes against the table of the guide. They contain operation, outcome and
//! duration; never a key, a scope or a body.

use std::time::Instant;

use super::problem::Code;

/// How a request was responded to. The words are the `outcome` of events and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseKind {
    /// The body ran; its response is stored.
    Stored,
    /// The body ran; everything was rolled back and the key was released.
    Released,
    /// The body ran and failed; the recovery decides its record.
    Pending,
    /// The body ran without a key.
    Unprotected,
    /// A stored response was sent again.
    Replayed,
    /// One of idem's own responses.
    Problem(Code),
}

impl ResponseKind {
    /// The kind if the body panicked: that counts, and not what happens to its 500 and to the key.
    pub(crate) const fn of_panic(self) -> Self {
        match self {
            Self::Problem(_) => self,
            Self::Stored | Self::Released | Self::Pending | Self::Unprotected | Self::Replayed => {
                Self::Problem(Code::HandlerPanicked)
            }
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::Released => "released",
            Self::Pending => "pending",
            Self::Unprotected => "unprotected",
            Self::Replayed => "replayed",
            Self::Problem(code) => code.as_str(),
        }
    }
}

/// Reports a response, just before it is sent.
pub(crate) fn report(operation: &'static str, kind: ResponseKind, started_at: Instant) {
    let (outcome, duration) = (kind.as_str(), started_at.elapsed());
    tracing::info!(operation, outcome, ?duration, "responded");
    #[cfg(feature = "metrics")]
    {
        metrics::counter!("idem_requests_total", "operation" => operation, "outcome" => outcome).increment(1);
        metrics::histogram!("idem_request_duration_seconds", "operation" => operation, "outcome" => outcome)
            .record(duration.as_secs_f64());
    }
}
