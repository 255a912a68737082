//! Retention: how long a record is replayed, at least 24 hours unless a shorter one is chosen explicitly.
//! The constructors check it, so no other code does.

use std::time::Duration;

/// How long a record is replayed, in seconds. After that the key is new. `retention = "24h"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    pub(crate) seconds: u32,
}

/// Why a [`Retention`] was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RetentionError {
    /// Under 24 hours: a client that drains its queue the next morning would run everything twice.
    #[error("a retention under 24 hours needs `Retention::short`")]
    Short,
    /// Under one second: the record would protect nothing.
    #[error("a retention must be at least one second")]
    Zero,
    /// Over 36,500 days.
    #[error("a retention must be at most 36500 days")]
    Long,
}

impl Retention {
    /// 24 hours: the default, and the shortest that [`new`](Self::new) accepts.
    pub const DAY: Self = Self { seconds: 24 * 60 * 60 };
    /// The longest retention: 36,500 days.
    pub const MAX: Self = Self { seconds: 36_500 * 24 * 60 * 60 };

    /// Creates a retention of 24 hours or more. A fraction of a second is dropped.
    ///
    /// # Errors
    /// [`RetentionError`] under 24 hours or over [`MAX`](Self::MAX).
    pub const fn new(length: Duration) -> Result<Self, RetentionError> {
        match Self::short(length) {
            Ok(retention) if retention.seconds < Self::DAY.seconds => Err(RetentionError::Short),
            other => other,
        }
    }

    /// Creates a retention that may be shorter than 24 hours. A retry that comes later runs again.
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

    /// The retention in seconds.
    #[must_use]
    pub const fn as_secs(self) -> u32 {
        self.seconds
    }
}
