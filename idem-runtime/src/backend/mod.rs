//! What the engine asks of a database. SQL lives with its database, and nothing else does there; `leases` is the part for
//! effects that live elsewhere. A backend may claim by lock or by insert, write by insert or update; the engine does not care.

use std::{future::Future, time::Duration};

use sqlx::{Pool, SqlStr, Transaction, error::DatabaseError};

use crate::{
    backend::error::Error,
    model::{fingerprint::Fingerprint, options::Isolation, record::Record, record_id::RecordId, retention::Retention},
};

mod cause;
pub(crate) mod error;
mod leases;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

pub use cause::Cause;
pub(crate) use cause::{cause, database_cause};
pub(crate) use leases::{AttemptId, Holder, InProgressRecord, LeaseRequest, Leases, StalledRow, Survey, Take};

/// The version of the schema that this build reads and writes.
const SCHEMA_VERSION: i32 = 2;

/// What a claim is for.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// The digest of scope and key: the record's primary key.
    pub(crate) id: RecordId,
    pub(crate) fingerprint: Fingerprint,
    /// The fingerprint by bytes, whichever the handler chose.
    pub(crate) bytes: Fingerprint,
    pub(crate) operation: &'static str,
    pub(crate) retention: Retention,
}

impl ClaimRequest {
    /// What tells a twin's request from another: by its bytes, and by the fingerprint that the handler chose. One of them is
    /// the same for a retry, also while two versions of a service run that choose differently.
    pub(crate) fn fingerprints(&self) -> [Fingerprint; 2] {
        [self.bytes, self.fingerprint]
    }

    /// Whether a stored fingerprint is this request's, by a rule that this handler has now.
    pub(crate) fn matches(&self, fingerprint: &[u8]) -> bool {
        self.fingerprints().iter().any(|print| print.to_bytes() == fingerprint)
    }
}

/// The result of a look at a key.
pub enum ClaimOutcome<Claimed> {
    /// The key is the caller's. Within a transaction the token proves at the end that it still is the same transaction.
    Claimed(Claimed),
    /// There is a record that has not expired.
    Completed(Record),
    /// There is a record in progress: an attempt with external effects holds the key, live or stalled.
    InProgress(InProgressRecord),
    /// Another transaction that is still open holds the key.
    Running(Conflict),
    /// The look came too early or too late: look again.
    LookAgain,
    /// The database accepts no writes.
    ReadOnly,
    /// The role may not write the table.
    NotPermitted,
}

impl<Claimed> ClaimOutcome<Claimed> {
    /// What was claimed, or why nothing was.
    pub(crate) fn claimed<Other>(self) -> Result<Claimed, ClaimOutcome<Other>> {
        Err(match self {
            Self::Claimed(claimed) => return Ok(claimed),
            Self::Completed(record) => ClaimOutcome::Completed(record),
            Self::InProgress(record) => ClaimOutcome::InProgress(record),
            Self::Running(conflict) => ClaimOutcome::Running(conflict),
            Self::LookAgain => ClaimOutcome::LookAgain,
            Self::ReadOnly => ClaimOutcome::ReadOnly,
            Self::NotPermitted => ClaimOutcome::NotPermitted,
        })
    }
}

/// A request under the key that runs at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict {
    pub(crate) duplicate: Duplicate,
    /// The rest of its lease, if it has one.
    pub(crate) remaining: Option<Duration>,
}

/// What the holder of a key runs, as seen by a request that lost to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duplicate {
    /// The very same request.
    Same,
    /// Another request under the same key.
    Other,
}

impl Duplicate {
    /// Compares what runs with what is request.
    pub(crate) fn of(running: [Fingerprint; 2], request: [Fingerprint; 2]) -> Self {
        if running.iter().any(|print| request.contains(print)) { Self::Same } else { Self::Other }
    }
}

/// What a transaction is opened for.
#[derive(Clone, Copy, Debug)]
pub enum Opening<'o> {
    /// To claim a key, and to run a handler's body in.
    Claim(&'o ClaimRequest),
    /// To complete an attempt that holds its key by a lease.
    Complete(&'o Holder),
    /// To run a body without a key.
    WithoutKey,
}

/// What became of the write of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It stands, in the transaction if there is one.
    Yes,
    /// Another's record is there already, or another has taken the lease.
    Lost,
    /// The claim's transaction is no longer the open one: the handler ended it.
    Ended,
}

/// What a database error means for a claim. Read off codes, never off texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A serialization failure or deadlock: the whole transaction may be run again.
    Transient,
    /// The database refuses this transaction: an earlier statement failed, or a constraint did at the end.
    Aborted,
    /// The table or function is missing or not permitted.
    Schema,
    /// Everything else: the database cannot be reached or cannot write.
    Unavailable,
}

/// When the engine reads a record outside any transaction before it claims the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFirst {
    /// Never: a claim waits for no other key's handler.
    Never,
    /// While a body runs in this process: a claim would have to wait for the one writer.
    WhileABodyRuns,
}

/// A database that can hold the records: PostgreSQL (feature `postgres`) or SQLite (feature `sqlite`).
///
/// Not for implementing: its methods are idem's own, and change in any release.
#[diagnostic::on_unimplemented(
    message = "idem has no tables on `{Self}`",
    label = "not a supported database",
    note = "enable the feature `postgres` or `sqlite` of idem-runtime, the one of this database"
)]
pub trait Backend: Leases {
    /// Tells whether the transaction at the end of a claim is the one it began in.
    #[doc(hidden)]
    type Token: Send + Sync + 'static;

    /// Whether a claim is preceded by a read outside any transaction.
    #[doc(hidden)]
    const READ_FIRST: ReadFirst;

    /// Reads the record outside any transaction. `None` if there is none.
    #[doc(hidden)]
    fn read(
        connection: &mut Self::Connection,
        request: &ClaimRequest,
    ) -> impl Future<Output = Result<Option<ClaimOutcome<Self::Token>>, sqlx::Error>> + Send;

    /// What opens a transaction, and does what must come before the claim's first look. Leaves a savepoint: the handler's
    /// writes are undone to it. sqlx counts a transaction as open only if all of this succeeded: nothing that can fail may
    /// come after the BEGIN in it, or the connection would stay inside a transaction that nobody ends.
    #[doc(hidden)]
    fn begin(isolation: Option<Isolation>, opening: Opening<'_>) -> SqlStr;

    /// Takes the key, or tells who has it.
    #[doc(hidden)]
    fn claim(
        connection: &mut Self::Connection,
        request: &ClaimRequest,
    ) -> impl Future<Output = Result<ClaimOutcome<Self::Token>, sqlx::Error>> + Send;

    /// Undoes all that the handler wrote, and keeps the claim.
    #[doc(hidden)]
    fn rewind(connection: &mut Self::Connection) -> impl Future<Output = Result<Written, sqlx::Error>> + Send;

    /// Proves, where no record does, that the transaction is sound and still the one that was opened.
    #[doc(hidden)]
    fn verify(connection: &mut Self::Connection) -> impl Future<Output = Result<Written, sqlx::Error>> + Send;

    /// Writes the record in the claim's transaction.
    #[doc(hidden)]
    fn record(
        connection: &mut Self::Connection,
        token: &Self::Token,
        request: &ClaimRequest,
        record: Record,
    ) -> impl Future<Output = Result<Written, sqlx::Error>> + Send;

    /// Gives up a transaction whose connection is in no known state.
    #[doc(hidden)]
    fn discard(transaction: Transaction<'static, Self>) -> impl Future<Output = ()> + Send;

    /// What an error means.
    #[doc(hidden)]
    fn fault(error: &sqlx::Error) -> Fault;

    /// What an error that COMMIT answered with means, if it proves that nothing was committed.
    #[doc(hidden)]
    fn refusal_to_commit(error: &sqlx::Error) -> Option<Fault>;

    /// Deletes up to `most` expired records, and says how many it deleted.
    #[doc(hidden)]
    fn prune(pool: &Pool<Self>, most: i64) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;

    /// Brings the schema to this build's version. Several processes may call it at once.
    #[doc(hidden)]
    fn migrate(pool: &Pool<Self>) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Whether the schema is the one this build needs.
    #[doc(hidden)]
    fn check(pool: &Pool<Self>) -> impl Future<Output = Result<(), Error>> + Send;
}

/// The check that every backend makes of the version it found.
fn expect_version(found: Option<i32>) -> Result<(), Error> {
    match found {
        Some(SCHEMA_VERSION) => Ok(()),
        Some(found) => Err(Error::SchemaVersion { found, expected: SCHEMA_VERSION }),
        None => Err(Error::SchemaMissing),
    }
}

/// A length of time that a database counted; none where it is over.
fn milliseconds(counted: i64) -> Duration {
    Duration::from_millis(u64::try_from(counted).unwrap_or(0))
}
