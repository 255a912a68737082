//! How a request waits for its twin: without a connection, and no longer than it was told to.
//! A twin in this process is waited for; one in another process is looked for again and again.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use crate::{backend::Wanted, engine::in_flight::Running, model::options::InProgress};

/// Until the next look while a twin runs in another process: doubled each time, up to the longest.
const POLL_FIRST: Duration = Duration::from_millis(25);
const POLL_LONGEST: Duration = Duration::from_millis(400);

/// There is no time left to wait.
pub(super) struct TimeIsUp;

/// The waiting of a request for its twin.
pub(super) enum Waiting {
    No,
    Until { deadline: Instant, poll: Duration },
}

impl Waiting {
    pub(super) fn new(in_progress: InProgress) -> Self {
        match in_progress {
            InProgress::Reject => Self::No,
            InProgress::Wait(limit) => {
                Self::Until { deadline: Instant::now() + limit.min(InProgress::LONGEST_WAIT), poll: POLL_FIRST }
            }
        }
    }

    /// Waits until another look makes sense; an error once the time is up.
    pub(super) async fn next(&mut self, running: &Running, wanted: &Wanted) -> Result<(), TimeIsUp> {
        let Self::Until { deadline, poll } = self else { return Err(TimeIsUp) };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(TimeIsUp);
        }
        if running.has(wanted) {
            // Out of time or not, the next look tells.
            let _ = timeout(left, running.end(wanted)).await;
        } else {
            sleep(left.min(*poll)).await;
            *poll = POLL_LONGEST.min(*poll * 2);
        }
        Ok(())
    }
}
