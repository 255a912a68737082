//! How a request waits for its in-flight duplicate: without a connection, and no longer than its handler says.
//! It is woken when a duplicate in this process ends, and polls for one in another process.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use crate::{backend::ClaimRequest, engine::in_flight::InFlight, model::options::InProgress};

/// The pause before the next look while the duplicate runs in another process: doubled each time, up to the longest.
const FIRST_POLL: Duration = Duration::from_millis(25);
const MAX_POLL: Duration = Duration::from_millis(400);

/// The time to wait is over.
pub(super) struct WaitTimeoutError;

/// How long a request still waits for its in-flight duplicate.
pub(super) enum Waiting {
    No,
    Until { deadline: Instant, poll: Duration },
}

impl Waiting {
    pub(super) fn new(in_progress: InProgress) -> Self {
        match in_progress {
            InProgress::Reject => Self::No,
            InProgress::Wait(limit) => {
                Self::Until { deadline: Instant::now() + limit.min(InProgress::MAX_WAIT), poll: FIRST_POLL }
            }
        }
    }

    /// Waits until another look makes sense; an error once the time is up.
    pub(super) async fn next(&mut self, in_flight: &InFlight, request: &ClaimRequest) -> Result<(), WaitTimeoutError> {
        let Self::Until { deadline, poll } = self else { return Err(WaitTimeoutError) };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(WaitTimeoutError);
        }
        if in_flight.has(request) {
            // Out of time or not, the next look tells.
            let _ = timeout(left, in_flight.end(request)).await;
        } else {
            sleep(left.min(*poll)).await;
            *poll = MAX_POLL.min(*poll * 2);
        }
        Ok(())
    }
}
