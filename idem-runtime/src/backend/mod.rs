//! The contract between the engine and a database: the sealed traits `Backend` and `Leases`, their values, and one folder of
//! SQL per database. A backend may claim by a lock or by an insert, and write by an insert or an update; the engine does not care.

use std::future::Future;

use sqlx::{SqlStr, Transaction, error::DatabaseError};

use crate::{
    backend::error::Error,
    model::{options::Isolation, record::Record},
};

mod columns;
pub(crate) mod error;
mod fault;
mod leases;
pub mod migrations;
#[cfg(feature = "postgres")]
mod postgres;
mod rows;
mod savepoint;
mod schema;
#[cfg(feature = "sqlite")]
mod sqlite;

pub use fault::Cause;
pub(crate) use fault::{Fault, cause, database_cause};
pub(crate) use leases::Leases;
pub(crate) use rows::{
    AttemptId, ClaimOutcome, ClaimRequest, Conflict, Duplicate, Durability, Holder, InProgressRecord, LeaseRequest,
    Purpose, Session, StalledRow, Survey, Take, WriteOutcome,
};
pub(crate) use schema::Schema;

/// The version of the schema that this build reads and writes.
const SCHEMA_VERSION: i32 = 2;

/// Whether the engine reads a record outside any transaction before it claims the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFirst {
    /// Never: a claim does not wait for the handlers of other keys.
    Never,
    /// Always: a claim would wait for the only writer, in this process or another, and a replay need not.
    Always,
}

/// Whether a claim by lease recognizes a handler with database effects that holds the key in an open transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenClaims {
    /// [`Leases::lease`] returns [`ClaimOutcome::Running`], or waits until the transaction has ended.
    Seen,
    /// [`Leases::lease`] returns [`ClaimOutcome::LookAgain`]. Only [`Backend::claim`], in a transaction, can tell.
    Unseen,
}

mod private {
    /// Seals [`Backend`](super::Backend): this trait cannot be named outside the crate.
    pub trait Sealed {}

    #[cfg(feature = "postgres")]
    impl Sealed for sqlx::Postgres {}
    #[cfg(feature = "sqlite")]
    impl Sealed for sqlx::Sqlite {}
}

/// A database in which the tables can be in a schema that the application chooses.
pub trait Schemas: Backend {}

#[cfg(feature = "postgres")]
impl Schemas for sqlx::Postgres {}

#[doc = include_str!("../docs/backend.md")]
#[diagnostic::on_unimplemented(
    message = "idem has no tables on `{Self}`",
    label = "not a supported database",
    note = "enable the feature `postgres` or `sqlite` of idem-runtime, the one of this database"
)]
pub trait Backend: private::Sealed + Leases {
    /// Proves at the end of a claim that the transaction is the one that the claim began in.
    #[doc(hidden)]
    type Token: Send + Sync + 'static;

    /// Whether a claim is preceded by a read outside any transaction.
    #[doc(hidden)]
    const READ_FIRST: ReadFirst;

    /// Whether a claim by lease recognizes an open transaction that holds the key.
    #[doc(hidden)]
    const OPEN_CLAIMS: OpenClaims;

    /// Reads the record outside any transaction.
    #[doc(hidden)]
    fn read(
        connection: &mut Self::Connection,
        schema: &Schema,
        request: &ClaimRequest,
    ) -> impl Future<Output = Result<Option<ClaimOutcome<Self::Token>>, sqlx::Error>> + Send;

    /// The statements that open a transaction and take what the claim needs before its first look.
    #[doc(hidden)]
    fn begin(isolation: Option<Isolation>, purpose: Purpose<'_>) -> SqlStr;

    /// Claims the key in the transaction that [`begin`](Self::begin) opened.
    #[doc(hidden)]
    fn claim(
        connection: &mut Self::Connection,
        schema: &Schema,
        request: &ClaimRequest,
    ) -> impl Future<Output = Result<ClaimOutcome<Self::Token>, sqlx::Error>> + Send;

    /// Undoes the handler's writes and keeps the claim.
    #[doc(hidden)]
    fn rewind(connection: &mut Self::Connection) -> impl Future<Output = Result<WriteOutcome, sqlx::Error>> + Send;

    /// Proves, where no record does, that the transaction is sound and still the one that was opened.
    #[doc(hidden)]
    fn verify(connection: &mut Self::Connection) -> impl Future<Output = Result<WriteOutcome, sqlx::Error>> + Send;

    /// Writes the record in the claim's transaction.
    #[doc(hidden)]
    fn record(
        connection: &mut Self::Connection,
        schema: &Schema,
        token: &Self::Token,
        request: &ClaimRequest,
        record: Record,
    ) -> impl Future<Output = Result<WriteOutcome, sqlx::Error>> + Send;

    /// Whether the database refuses every further statement of the transaction because one has failed.
    #[doc(hidden)]
    fn is_aborted(connection: &mut Self::Connection) -> impl Future<Output = Result<bool, sqlx::Error>> + Send;

    /// Forgets the connection's prepared statements.
    #[doc(hidden)]
    fn forget_plans(connection: &mut Self::Connection) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Rolls back after an error. Unless a response that only this can have proves that the transaction has ended, the
    /// connection is discarded.
    #[doc(hidden)]
    fn abandon(transaction: Transaction<'static, Self>) -> impl Future<Output = ()> + Send;

    /// Ends a transaction whose connection is in an unknown state; the connection is not used again as it is.
    #[doc(hidden)]
    fn discard(transaction: Transaction<'static, Self>) -> impl Future<Output = ()> + Send;

    /// The meaning of an error in a statement of this backend.
    #[doc(hidden)]
    fn fault(error: &sqlx::Error) -> Fault;

    /// The meaning of an error that COMMIT returned, if it proves that nothing was committed.
    #[doc(hidden)]
    fn refusal_to_commit(error: &sqlx::Error) -> Option<Fault>;

    /// The meaning of an error that a handler's body returned.
    #[doc(hidden)]
    fn cause(error: &dyn DatabaseError) -> Cause;

    /// Deletes up to `limit` expired records and returns how many it deleted.
    #[doc(hidden)]
    fn prune(
        connection: &mut Self::Connection,
        schema: &Schema,
        limit: i64,
    ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;

    /// Tries once to bring the schema to this build's version.
    #[doc(hidden)]
    fn migrate(
        connection: &mut Self::Connection,
        schema: &Schema,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Whether another transaction or process holds a lock that a migration needs, and nothing has changed.
    #[doc(hidden)]
    fn is_locked(error: &sqlx::Error) -> bool;

    /// Checks that the schema is the one this build needs.
    #[doc(hidden)]
    fn check(connection: &mut Self::Connection, schema: &Schema) -> impl Future<Output = Result<(), Error>> + Send;
}

/// Checks the version that a backend found; `None` if there is no schema.
fn expect_version(found: Option<i32>) -> Result<(), Error> {
    match found {
        Some(SCHEMA_VERSION) => Ok(()),
        Some(found) => Err(Error::SchemaVersion { found, expected: SCHEMA_VERSION }),
        None => Err(Error::SchemaMissing),
    }
}
