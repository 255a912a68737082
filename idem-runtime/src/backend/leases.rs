//! What the engine asks of a database for effects that live elsewhere: keys held in progress by a lease, not by a lock.
//! Every write after the claim demands the attempt's identifier: whoever has lost the lease writes nothing.

use std::{fmt, future::Future, time::Duration};

use sqlx::{Database, Pool};

use super::{ClaimOutcome, ClaimRequest, Written};
use crate::model::{record::Record, record_id::RecordId};

/// Tells one attempt's lease from every other's, also from a later one of the same key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AttemptId([u8; 16]);

impl AttemptId {
    /// An identifier that no other attempt has.
    pub(crate) fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AttemptId(..)")
    }
}

/// Which record an attempt holds, and as whom.
#[derive(Clone, Copy, Debug)]
pub struct Holder {
    pub(crate) id: RecordId,
    pub(crate) attempt: AttemptId,
}

/// A lease to take.
#[derive(Clone, Debug)]
pub struct LeaseRequest {
    pub(crate) claim: ClaimRequest,
    pub(crate) attempt: AttemptId,
    pub(crate) length: Duration,
    /// The encoded request, if the handler stores it.
    pub(crate) stored_request: Option<Vec<u8>>,
}

impl LeaseRequest {
    pub(crate) fn holder(&self) -> Holder {
        Holder { id: self.claim.id, attempt: self.attempt }
    }
}

/// A record in progress, as a request meets it.
#[derive(Clone, Debug)]
pub struct InProgressRecord {
    pub(crate) fingerprint: Vec<u8>,
    /// What is left of its lease, by the database's clock; zero if it has run out.
    pub(crate) remaining: Duration,
}

/// Which dead attempts a sweep takes.
#[derive(Clone, Copy, Debug)]
pub enum Take<'t> {
    /// The one of this operation whose lease has run out longest ago, if it did before the sweep began.
    Due {
        operation: &'t str,
        /// How long ago the sweep began: what it has postponed since is not due in it again.
        since: Duration,
        /// Only what was asked less often.
        max_tries: u32,
    },
    /// This one, by hand, also while it waits to be asked again.
    One(&'t RecordId),
}

/// The row of a stalled attempt.
#[derive(Clone, Debug)]
pub struct StalledRow {
    pub(crate) id: RecordId,
    pub(crate) operation: String,
    /// When the attempt began, in milliseconds since 1970 by the database's clock.
    pub(crate) started_at: i64,
    /// How often a reconciler has tried before.
    pub(crate) tries: u32,
    pub(crate) last_error: Option<String>,
    /// The encoded request, if the handler stored it and the row was taken; a list does not read it.
    pub(crate) request: Option<Vec<u8>>,
}

/// The identifier in a column.
pub(super) fn record_id(bytes: &[u8]) -> Result<RecordId, sqlx::Error> {
    RecordId::from_slice(bytes).ok_or_else(|| sqlx::Error::Decode("a record id has 32 bytes".into()))
}

/// What a write of one record's row came to.
pub(super) fn written(rows: u64) -> Written {
    if rows == 1 { Written::Yes } else { Written::Lost }
}

/// How many attempts are dead at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Survey {
    /// Of the operations asked for, and to be asked.
    pub(crate) due: u64,
    /// Of the operations asked for, but asked too often.
    pub(crate) gave_up: u64,
    /// Of other operations.
    pub(crate) no_reconciler: u64,
}

/// The leases of a database. Each but `take` is one statement, which commits by itself unless it is in a transaction; where
/// it wrote nothing, another may tell why.
pub trait Leases: Database + Sized {
    /// Takes the key for an attempt and commits that, or tells who has it; `Nothing` where only a look from inside a
    /// transaction can tell. May be sent again if its answer was lost: an attempt meets its own record as claimed.
    #[doc(hidden)]
    fn lease(
        connection: &mut Self::Connection,
        lease: &LeaseRequest,
    ) -> impl Future<Output = Result<ClaimOutcome<()>, sqlx::Error>> + Send;

    /// Lets the lease last this long from now on. `Lost` if it is another's, or the record is decided.
    #[doc(hidden)]
    fn renew(
        connection: &mut Self::Connection,
        holder: &Holder,
        length: Duration,
    ) -> impl Future<Output = Result<Written, sqlx::Error>> + Send;

    /// Writes the record, alone.
    #[doc(hidden)]
    fn complete(
        connection: &mut Self::Connection,
        holder: &Holder,
        record: Record,
    ) -> impl Future<Output = Result<Written, sqlx::Error>> + Send;

    /// Writes the record in the transaction that was opened to complete it.
    #[doc(hidden)]
    fn complete_within(
        connection: &mut Self::Connection,
        holder: &Holder,
        record: Record,
    ) -> impl Future<Output = Result<Written, sqlx::Error>> + Send;

    /// Deletes the record in progress: the key is free.
    #[doc(hidden)]
    fn release(
        connection: &mut Self::Connection,
        holder: &Holder,
    ) -> impl Future<Output = Result<Written, sqlx::Error>> + Send;

    /// Leaves the record undecided, to be asked about again after a pause; `tries` is the new count of tries.
    #[doc(hidden)]
    fn postpone(
        connection: &mut Self::Connection,
        holder: &Holder,
        pause: Duration,
        error: Option<&str>,
        tries: Option<u32>,
    ) -> impl Future<Output = Result<Written, sqlx::Error>> + Send;

    /// Takes a dead attempt's record for another attempt, which is to decide it. Any number of nodes may take at once.
    #[doc(hidden)]
    fn take(
        pool: &Pool<Self>,
        take: Take<'_>,
        attempt: AttemptId,
        length: Duration,
    ) -> impl Future<Output = Result<Option<StalledRow>, sqlx::Error>> + Send;

    /// Counts the dead attempts.
    #[doc(hidden)]
    fn survey(
        pool: &Pool<Self>,
        operations: &[&str],
        max_tries: u32,
    ) -> impl Future<Output = Result<Survey, sqlx::Error>> + Send;

    /// Lists up to `most` dead attempts, those first that began first.
    #[doc(hidden)]
    fn stalled(pool: &Pool<Self>, most: i64) -> impl Future<Output = Result<Vec<StalledRow>, sqlx::Error>> + Send;
}
