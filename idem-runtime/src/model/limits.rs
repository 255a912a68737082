//! Periods and limits that an application sets at run time: zero is refused where it is set.
//! The attribute refuses its own zeros when it expands.

use std::time::Duration;

use super::options::InProgress;

/// Refuses a duration of zero. `name` is the method that sets it.
#[track_caller]
pub(crate) fn longer_than_zero(name: &str, duration: Duration) -> Duration {
    assert!(!duration.is_zero(), "`{name}` must be longer than zero");
    duration
}

/// Refuses a limit of zero. `name` is the method that sets it.
#[track_caller]
pub(crate) fn at_least_one<N: PartialOrd + From<u8>>(name: &str, limit: N) -> N {
    assert!(limit >= N::from(1), "`{name}` must be at least one");
    limit
}

/// Refuses to wait for zero. `name` is the method that sets it.
#[track_caller]
pub(crate) fn wait_longer_than_zero(name: &str, in_progress: InProgress) -> InProgress {
    if let InProgress::Wait(limit) = in_progress {
        longer_than_zero(name, limit);
    }
    in_progress
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_zero_passes() {
        assert_eq!(longer_than_zero("pruner", Duration::from_nanos(1)), Duration::from_nanos(1));
        assert_eq!(at_least_one("max_tries", 1_u32), 1);
    }

    #[test]
    #[should_panic(expected = "`pruner` must be longer than zero")]
    fn a_duration_of_zero_is_refused() {
        longer_than_zero("pruner", Duration::ZERO);
    }

    #[test]
    #[should_panic(expected = "`max_response` must be at least one")]
    fn a_limit_of_zero_is_refused() {
        at_least_one("max_response", 0_usize);
    }
}
