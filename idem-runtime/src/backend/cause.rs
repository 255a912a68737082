//! What the database has to do with an error that a body returned. Handlers' errors do not tell which database it was,
//! so one function reads the codes of all of them; texts are never read.

use sqlx::error::DatabaseError;

/// What the database has to do with the error that a body returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A serialization failure or a deadlock: the whole transaction may simply be run again.
    Conflict,
    /// A prepared statement no longer fits the schema, or is gone: the transaction may run again with statements prepared anew.
    StalePlan,
    /// Time or another connection heals it: a timeout, a cancelled statement, no connection, no memory, a full disk, a server
    /// that is read-only or restarts. SQLite may have rolled back the whole transaction by itself.
    Passing,
    /// Nothing that is known.
    Unknown,
}

/// What an error of sqlx says of the transaction that it arose in.
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

/// What an error that the database reported says of its transaction.
pub(crate) fn database_cause(error: &dyn DatabaseError) -> Cause {
    #[cfg(feature = "sqlite")]
    if let Some(error) = error.try_downcast_ref::<sqlx::sqlite::SqliteError>() {
        return if super::sqlite::passes(error) { Cause::Passing } else { Cause::Unknown };
    }
    #[cfg(feature = "postgres")]
    if error.try_downcast_ref::<sqlx::postgres::PgDatabaseError>().is_some_and(super::postgres::is_stale_plan) {
        return Cause::StalePlan;
    }
    let code = error.code().unwrap_or_default();
    if asks_for_another_run(&code) {
        Cause::Conflict
    } else if passes(&code) {
        Cause::Passing
    } else {
        Cause::Unknown
    }
}

/// Whether the database asks for the whole transaction to be run again: serialization failure, deadlock (SQLSTATE).
/// SQLite's transactions hold the write lock from their start and never have to be.
pub(super) fn asks_for_another_run(code: &str) -> bool {
    matches!(code, "40001" | "40P01")
}

/// Whether the fault behind a SQLSTATE passes: <https://www.postgresql.org/docs/current/errcodes-appendix.html>.
fn passes(code: &str) -> bool {
    // connection exception, insufficient resources, operator intervention (cancelled, shutting down)
    let class = matches!(code.get(..2), Some("08" | "53" | "57"));
    // read-only transaction, idle and transaction timeouts, object in use, lock not available, system and I/O error
    class || matches!(code, "25006" | "25P03" | "25P04" | "55006" | "55P03" | "58000" | "58030")
}
