//! The two lengths of time that are promised: how long a record answers, and how long an attempt may stay in progress.
//! Checked where they are made, so that nothing behind them is.

use std::time::Duration;

/// How long a record answers, in whole seconds. Past it the key is new. `retention = "24h"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    pub(crate) seconds: u32,
}

/// Why a [`Retention`] was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RetentionError {
    /// Under 24 hours a client that drains its queue the next morning runs everything twice.
    #[error("a retention under 24 hours must be asked for with `Retention::short`")]
    Short,
    /// A record that answers for no second protects nothing.
    #[error("a retention must be at least one second")]
    Zero,
    /// More than a hundred years.
    #[error("a retention must be at most 36500 days")]
    Long,
}

impl Retention {
    /// 24 hours, the default and the shortest that needs no permission.
    pub const DAY: Self = Self { seconds: 24 * 60 * 60 };
    /// The longest retention: 36,500 days.
    pub const MAX: Self = Self { seconds: 36_500 * 24 * 60 * 60 };

    /// A retention of 24 hours or more; a fraction of a second is dropped.
    ///
    /// # Errors
    /// [`RetentionError`] under 24 hours or over [`MAX`](Self::MAX).
    pub const fn new(length: Duration) -> Result<Self, RetentionError> {
        match Self::short(length) {
            Ok(retention) if retention.seconds < Self::DAY.seconds => Err(RetentionError::Short),
            other => other,
        }
    }

    /// A retention that may be shorter than 24 hours: a retry that comes later runs again.
    ///
    /// # Errors
    /// [`RetentionError`] under one second or over [`MAX`](Self::MAX).
    #[allow(clippy::cast_possible_truncation)] // bounded by MAX just before
    pub const fn short(length: Duration) -> Result<Self, RetentionError> {
        match length.as_secs() {
            0 => Err(RetentionError::Zero),
            seconds if seconds > Self::MAX.seconds as u64 => Err(RetentionError::Long),
            seconds => Ok(Self { seconds: seconds as u32 }),
        }
    }

    /// Its length in seconds.
    #[must_use]
    pub const fn as_secs(self) -> u32 {
        self.seconds
    }
}

/// How long an attempt with external effects may stay in progress without renewal. `lease = "60s"`.
///
/// While its process lives the lease is renewed. So its length is how long a killed attempt waits for the recovery, and how
/// long a paused or cut-off process may take to come back before its attempt is decided by others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    pub(crate) milliseconds: u32,
}

/// Why a [`Lease`] was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaseError {
    /// It would be over before the attempt began.
    #[error("a lease must be at least one millisecond")]
    Zero,
    /// More than a day.
    #[error("a lease must be at most 24 hours")]
    Long,
}

impl Lease {
    /// 60 seconds, the default.
    pub const MINUTE: Self = Self { milliseconds: 60_000 };
    /// The longest lease: 24 hours.
    pub const MAX: Self = Self { milliseconds: 24 * 60 * 60 * 1000 };

    /// A lease of whole milliseconds; a fraction is dropped.
    ///
    /// # Errors
    /// [`LeaseError`] under one millisecond or over [`MAX`](Self::MAX).
    #[allow(clippy::cast_possible_truncation)] // bounded by MAX just before
    pub const fn new(length: Duration) -> Result<Self, LeaseError> {
        match length.as_millis() {
            0 => Err(LeaseError::Zero),
            milliseconds if milliseconds > Self::MAX.milliseconds as u128 => Err(LeaseError::Long),
            milliseconds => Ok(Self { milliseconds: milliseconds as u32 }),
        }
    }

    /// Its length.
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
            (Duration::ZERO, Err(LeaseError::Zero)),
            (Duration::from_nanos(999_999), Err(LeaseError::Zero)),
            (Duration::from_micros(1_999), Ok(Duration::from_millis(1))),
            (Duration::from_millis(300), Ok(Duration::from_millis(300))),
            (Lease::MAX.length(), Ok(Duration::from_hours(24))),
            (Lease::MAX.length() + Duration::from_millis(1), Err(LeaseError::Long)),
            (Duration::MAX, Err(LeaseError::Long)),
        ] {
            assert_eq!(Lease::new(length).map(Lease::length), lease, "{length:?}");
        }
    }
}
