//! The outcome of a handler's body: a response and the database error behind it, or a panic.
//! It is owned, so that nothing borrows the transaction when the claim settles.

use std::error::Error as StdError;

use axum::response::{IntoResponse, Response};
use sqlx::error::DatabaseError;

use crate::{
    backend::{Cause, cause, database_cause},
    engine::{Panicked, guarded},
};

/// Looks for a database error behind what a body returned: `(&&Probe(&result)).__cause()`.
///
/// Autoref specialisation: method look-up takes `CauseViaError` if the body returned a `Result` whose error is an
/// `Error`, else `CauseFallback`. So a handler's return type needs no bound. The method's name is one that
/// no trait of the user has.
pub struct Probe<'r, R>(pub &'r Result<R, Panicked>);

/// See [`Probe`].
pub trait CauseViaError {
    /// Follows the error's sources.
    fn __cause(&self) -> Cause;
}

impl<T, E: StdError + 'static> CauseViaError for &Probe<'_, Result<T, E>> {
    fn __cause(&self) -> Cause {
        let Ok(Err(error)) = self.0 else { return Cause::Unknown };
        let mut sources = std::iter::successors(Some(error as &(dyn StdError + 'static)), |&error| error.source());
        let known = sources.find_map(|error| {
            // A transparent error skips the `sqlx::Error` in it: its source is that error's source.
            let transparent = || error.downcast_ref::<Box<dyn DatabaseError>>().map(|error| database_cause(&**error));
            error.downcast_ref::<sqlx::Error>().map(cause).or_else(transparent)
        });
        known.unwrap_or(Cause::Unknown)
    }
}

/// See [`Probe`].
pub trait CauseFallback {
    /// Returns [`Cause::Unknown`].
    fn __cause(&self) -> Cause;
}

impl<R> CauseFallback for Probe<'_, R> {
    fn __cause(&self) -> Cause {
        Cause::Unknown
    }
}

/// The response of a body and the cause of its error, or its panic. Nothing in it borrows the transaction.
pub struct Outcome(pub(crate) Result<(Response, Cause), Panicked>);

impl Outcome {
    pub(crate) fn cause(&self) -> Cause {
        self.0.as_ref().map_or(Cause::Unknown, |(_, cause)| *cause)
    }
}

/// Turns what a body returned into a response. A panic while doing so counts as the body's.
pub fn outcome<R: IntoResponse>(result: Result<R, Panicked>, cause: Cause) -> Outcome {
    let response = result.and_then(|returned| guarded(|| returned.into_response()));
    Outcome(response.map(|response| (response, cause)))
}

#[cfg(test)]
mod tests {
    use std::{borrow::Cow, fmt};

    use sqlx::error::ErrorKind;

    use super::*;

    /// An error as a database reports it.
    #[derive(Debug)]
    struct Reported(&'static str);

    impl fmt::Display for Reported {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("reported")
        }
    }

    impl StdError for Reported {}

    impl DatabaseError for Reported {
        fn message(&self) -> &'static str {
            "reported"
        }

        fn code(&self) -> Option<Cow<'_, str>> {
            Some(self.0.into())
        }

        fn as_error(&self) -> &(dyn StdError + Send + Sync + 'static) {
            self
        }

        fn as_error_mut(&mut self) -> &mut (dyn StdError + Send + Sync + 'static) {
            self
        }

        fn into_error(self: Box<Self>) -> Box<dyn StdError + Send + Sync + 'static> {
            self
        }

        fn kind(&self) -> ErrorKind {
            ErrorKind::Other
        }
    }

    /// The ways in which applications wrap a database error.
    #[derive(Debug, thiserror::Error)]
    enum AppError {
        #[error("the database failed")]
        Source(#[source] sqlx::Error),
        #[error(transparent)]
        Transparent(sqlx::Error),
        #[error("deeper")]
        Deeper(#[source] Box<AppError>),
        #[error("without a source")]
        Hidden,
    }

    fn reported(code: &'static str) -> sqlx::Error {
        sqlx::Error::Database(Box::new(Reported(code)))
    }

    fn cause_of(error: AppError) -> Cause {
        let result: Result<Result<(), AppError>, Panicked> = Ok(Err(error));
        (&&Probe(&result)).__cause()
    }

    #[test]
    fn b39_a_conflict_is_seen_through_the_errors_of_an_application() {
        for code in ["40001", "40P01"] {
            assert_eq!(cause_of(AppError::Source(reported(code))), Cause::Conflict);
            assert_eq!(cause_of(AppError::Transparent(reported(code))), Cause::Conflict);
            assert_eq!(cause_of(AppError::Deeper(Box::new(AppError::Source(reported(code))))), Cause::Conflict);
            assert_eq!(cause_of(AppError::Deeper(Box::new(AppError::Transparent(reported(code))))), Cause::Conflict);
        }
    }

    #[test]
    fn a_passing_fault_is_seen_through_the_errors_of_an_application() {
        for code in ["08006", "25006", "53100", "53300", "55P03", "55006", "57014", "57P01", "58030"] {
            assert_eq!(cause_of(AppError::Source(reported(code))), Cause::Passing, "{code}");
            assert_eq!(cause_of(AppError::Transparent(reported(code))), Cause::Passing, "{code}");
        }
        assert_eq!(cause_of(AppError::Source(sqlx::Error::PoolTimedOut)), Cause::Passing);
        assert_eq!(cause_of(AppError::Source(std::io::Error::other("reset").into())), Cause::Passing);
        assert_eq!(cause_of(AppError::Source(reported("0A000"))), Cause::Unknown, "not known to be a stale plan");
    }

    #[test]
    fn other_errors_are_the_handlers_own() {
        assert_eq!(cause_of(AppError::Source(reported("23505"))), Cause::Unknown);
        assert_eq!(cause_of(AppError::Transparent(sqlx::Error::RowNotFound)), Cause::Unknown);
        assert_eq!(cause_of(AppError::Hidden), Cause::Unknown);
        let no_result: Result<&str, Panicked> = Ok("40001");
        assert_eq!(Probe(&no_result).__cause(), Cause::Unknown);
        let panicked: Result<Result<(), AppError>, Panicked> = Err(Panicked);
        assert_eq!((&&Probe(&panicked)).__cause(), Cause::Unknown);
    }
}
