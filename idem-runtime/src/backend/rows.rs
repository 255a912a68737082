//! The plain values that pass between the engine and a backend: requests, outcomes and rows.
//! No SQL and no behavior beyond what both sides must agree on.

use std::{fmt, time::Duration};

use crate::model::{
    fingerprint::{Differences, Fingerprint},
    record::StoredRecord,
    record_id::RecordId,
    retention::Retention,
};

/// The claim of a key.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// The digest of scope and key: the record's primary key.
    pub(crate) id: RecordId,
    /// The fingerprint by the rule that the handler chose.
    pub(crate) fingerprint: Fingerprint,
    /// The fingerprint by bytes, whichever rule the handler chose.
    pub(crate) bytes: Fingerprint,
    pub(crate) operation: &'static str,
    pub(crate) retention: Retention,
    pub durability: Durability,
    pub(crate) session: Session,
}

/// Whether a crash of the database may undo what a claim's transaction has committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// As the session is set: effects and record are lost together, and a retry runs again.
    OfSession,
    /// Never, where the database allows this setting: a sender does not send again what was acknowledged.
    Demanded,
}

/// The role and the `search_path` that the record is written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Session {
    /// Those that the handler left.
    AsLeft,
    /// Those of the claim. The handler changes them, and they hide the table.
    OfClaim,
}

impl ClaimRequest {
    /// The two fingerprints that distinguish a duplicate from another request. A retry has at least one of them in
    /// common with the first request, even while two versions of a service run with different rules.
    pub(crate) fn fingerprints(&self) -> [Fingerprint; 2] {
        [self.bytes, self.fingerprint]
    }

    /// Whether a stored fingerprint is this request's, by a rule that this handler has now.
    pub(crate) fn matches(&self, fingerprint: &[u8]) -> bool {
        self.fingerprints().iter().any(|own| own.to_bytes() == fingerprint)
    }
}

/// The result of a look at a key.
pub enum ClaimOutcome<Claimed> {
    /// The key is the caller's. Within a transaction the token proves at the end that it still is the same transaction.
    Claimed(Claimed),
    /// There is a completed record that has not expired.
    Completed(StoredRecord),
    /// There is a record in progress: an attempt with external effects holds the key, live or stalled.
    InProgress(InProgressRecord),
    /// Another transaction that is still open holds the key.
    Running(Conflict),
    /// The look coincided with the end of another claim, and found neither the record nor the key free: look again.
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

/// A request that lost to one that is still running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict {
    pub(crate) duplicate: Duplicate,
    /// The rest of the winner's lease, if it has one.
    pub(crate) remaining: Option<Duration>,
}

/// How the running request compares with the one that lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duplicate {
    /// The same request: an in-flight duplicate.
    Same,
    /// Another request under the same key, and where it differs, if that is known.
    Other(Differences),
}

impl Duplicate {
    /// Compares the fingerprints of the running request with those of the one that lost.
    pub(crate) fn of(running: [Fingerprint; 2], request: [Fingerprint; 2]) -> Self {
        if running.iter().any(|fingerprint| request.contains(fingerprint)) {
            return Self::Same;
        }
        let [[running_bytes, running], [bytes, fingerprint]] = [running, request];
        match running.differences(&fingerprint) {
            // By two rules, as in two versions of a service.
            Differences::UNKNOWN => Self::Other(running_bytes.differences(&bytes)),
            differences => Self::Other(differences),
        }
    }
}

/// The purpose of a transaction.
#[derive(Clone, Copy, Debug)]
pub enum Purpose<'p> {
    /// To claim a key, and to run a handler's body.
    Claim(&'p ClaimRequest),
    /// To complete an attempt that holds its key by a lease.
    Complete(&'p Holder),
    /// To run a body without a key.
    Unkeyed,
}

/// The result of a write to a record, or to the savepoint in front of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// Done; within a transaction, not committed yet.
    Written,
    /// Not done: there is a record of another attempt, or another attempt has taken the lease.
    Lost,
    /// Not done: the transaction is no longer the one that was opened. The handler ended it.
    TransactionEnded,
    /// Not done: the handler's role may not write the table, or another table has its name.
    TableHidden,
}

impl WriteOutcome {
    /// The result of a statement that writes one record's row, by the number of rows it wrote.
    pub(super) fn of_rows(rows: u64) -> Self {
        if rows == 1 { Self::Written } else { Self::Lost }
    }
}

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

/// The record that an attempt holds by a lease, and the attempt.
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

/// A record in progress, as another request finds it.
#[derive(Clone, Debug)]
pub struct InProgressRecord {
    pub(crate) fingerprint: Vec<u8>,
    /// The rest of its lease, by the database's clock; zero if it has run out.
    pub(crate) remaining: Duration,
}

/// The stalled attempts that may be taken over.
#[derive(Clone, Copy, Debug)]
pub enum Take<'t> {
    /// Of this operation, the attempt whose lease ran out first, if it ran out before the sweep began.
    Due {
        operation: &'t str,
        /// The time since the sweep began. An attempt that this sweep postponed is not due in it again.
        sweep_age: Duration,
        /// Only attempts with fewer tries.
        max_tries: u32,
    },
    /// This attempt, for a manual decision: also while it is postponed.
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
    /// The encoded request, if the handler stored it and the attempt was taken over. A list does not read it.
    pub(crate) request: Option<Vec<u8>>,
}

/// The number of stalled attempts at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Survey {
    /// Of the given operations, with fewer tries than the limit.
    pub(crate) due: u64,
    /// Of the given operations, with as many tries as the limit or more.
    pub(crate) gave_up: u64,
    /// Of other operations.
    pub(crate) no_reconciler: u64,
}

/// The identifier in a column.
pub(super) fn record_id(bytes: &[u8]) -> Result<RecordId, sqlx::Error> {
    RecordId::from_slice(bytes).ok_or_else(|| sqlx::Error::Decode("a record id has 32 bytes".into()))
}

/// A duration that a database computed in milliseconds; zero if it is negative.
pub(super) fn milliseconds(computed: i64) -> Duration {
    Duration::from_millis(u64::try_from(computed).unwrap_or(0))
}
