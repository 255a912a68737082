//! The meaning of a database error: of one in idem's own statements, and of one that a handler's body returned.
//! It is read from codes, never from texts.

use sqlx::error::DatabaseError;

/// The meaning of an error in one of idem's own statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A serialization failure or deadlock: the whole transaction may run again.
    Transient,
    /// The database refuses this transaction: an earlier statement failed, or a constraint at its end.
    Aborted,
    /// The table or a function is missing or not permitted.
    Schema,
    /// Everything else: the database cannot be reached or cannot write.
    Unavailable,
}

/// The meaning of an error that a handler's body returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A serialization failure or a deadlock: the whole transaction may run again.
    Conflict,
    /// A prepared statement no longer fits the schema: the whole transaction may run again, its statements prepared anew.
    StalePlan,
    /// Time or another connection heals it: a timeout, a cancelled statement, no connection, no memory, a full disk, a server
    /// that is read-only or restarts. The database may have rolled back the whole transaction already.
    Passing,
    /// No known meaning.
    Unknown,
}

/// The meaning of an error of sqlx that a handler's body returned.
pub(crate) fn cause(error: &sqlx::Error) -> Cause {
    match error {
        sqlx::Error::Database(error) => database_cause(&**error),
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed => Cause::Passing,
        _ => Cause::Unknown,
    }
}

/// The meaning of an error that a database reported. The error does not say which database it is of, so each one that this
/// build supports is asked.
pub(crate) fn database_cause(error: &dyn DatabaseError) -> Cause {
    if is_conflict(error) {
        return Cause::Conflict;
    }
    let causes = [
        #[cfg(feature = "postgres")]
        <sqlx::Postgres as super::Backend>::cause(error),
        #[cfg(feature = "sqlite")]
        <sqlx::Sqlite as super::Backend>::cause(error),
    ];
    causes.into_iter().find(|cause| *cause != Cause::Unknown).unwrap_or(Cause::Unknown)
}

/// Whether the database asks for the whole transaction to run again. These SQLSTATEs are standard: serialization failure,
/// deadlock.
pub(super) fn is_conflict(error: &dyn DatabaseError) -> bool {
    matches!(error.code().as_deref(), Some("40001" | "40P01"))
}
