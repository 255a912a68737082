//! The lease duration: how long an attempt with external effects may stay in progress without renewal.
//! The constructor checks it, so no other code does.

use std::time::Duration;

/// How long an attempt with external effects may stay in progress without renewal. `lease = "60s"`.
///
/// While its process runs, the lease is renewed. So this is how long recovery waits after a process was killed, and how
/// long a process may be paused or cut off before recovery decides its attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseDuration {
    pub(crate) milliseconds: u32,
}

/// Why a [`LeaseDuration`] was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseDurationError {
    /// Under one millisecond: the lease would expire before the attempt starts.
    #[error("a lease must be at least one millisecond")]
    Zero,
    /// Over 24 hours.
    #[error("a lease must be at most 24 hours")]
    Long,
}

impl LeaseDuration {
    /// 60 seconds, the default.
    pub const MINUTE: Self = Self { milliseconds: 60_000 };
    /// The longest lease: 24 hours.
    pub const MAX: Self = Self { milliseconds: 24 * 60 * 60 * 1000 };

    /// Creates a lease duration in milliseconds. A fraction of a millisecond is dropped.
    ///
    /// # Errors
    /// [`LeaseDurationError`] under one millisecond or over [`MAX`](Self::MAX).
    #[allow(clippy::cast_possible_truncation)] // bounded by MAX just before
    pub const fn new(length: Duration) -> Result<Self, LeaseDurationError> {
        match length.as_millis() {
            0 => Err(LeaseDurationError::Zero),
            milliseconds if milliseconds > Self::MAX.milliseconds as u128 => Err(LeaseDurationError::Long),
            milliseconds => Ok(Self { milliseconds: milliseconds as u32 }),
        }
    }

    /// The duration.
    #[must_use]
    pub const fn length(self) -> Duration {
        Duration::from_millis(self.milliseconds as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_some_milliseconds_and_at_most_a_day() {
        for (length, lease) in [
            (Duration::ZERO, Err(LeaseDurationError::Zero)),
            (Duration::from_nanos(999_999), Err(LeaseDurationError::Zero)),
            (Duration::from_micros(1_999), Ok(Duration::from_millis(1))),
            (Duration::from_millis(300), Ok(Duration::from_millis(300))),
            (LeaseDuration::MAX.length(), Ok(Duration::from_hours(24))),
            (LeaseDuration::MAX.length() + Duration::from_millis(1), Err(LeaseDurationError::Long)),
            (Duration::MAX, Err(LeaseDurationError::Long)),
        ] {
            assert_eq!(LeaseDuration::new(length).map(LeaseDuration::length), lease, "{length:?}");
        }
    }
}
