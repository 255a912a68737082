//! The algorithm over a backend: claim a key, hold it while a body runs, settle it. Knows nothing of axum.
//! A claim is one open transaction or one lease. Dropped, it releases the key or leaves the record to the recovery.

use std::{future::Future, sync::Arc, time::Duration};

use sqlx::pool::PoolConnection;
use tokio::time::timeout;

use crate::{
    backend::{
        Backend, ClaimOutcome, ClaimRequest, Conflict, Duplicate, Fault, InProgressRecord, Purpose, ReadFirst, Schema,
    },
    engine::in_flight::{InFlight, InFlightGuard},
    model::{
        fingerprint::Differences,
        options::{InProgress, Isolation},
        record::StoredRecord,
        record_id::RecordId,
    },
};

pub(crate) mod attempt;
mod caught;
mod claim;
pub(crate) mod in_flight;
mod lease;
mod migrate;
mod settle;
mod store;
mod waiting;

pub use caught::{Panicked, caught, guarded};
pub(crate) use claim::{Claim, Plans, TransactionTerms, UnkeyedTransaction};
pub(crate) use lease::{Lease, LeaseTerms};
pub(crate) use settle::{SettleError, SettleErrorKind, Writes};
use store::{OverdueError, bounded, log, log_overdue};
pub(crate) use store::{Store, to_completion};
use waiting::Waiting;

/// How often the engine looks at a key again after a look that coincided with the end of another claim.
const MAX_LOOKS: u32 = 20;

/// Opens and ends claims on one pool.
pub(crate) struct Engine<Db: Backend> {
    pub(crate) store: Store<Db>,
    pub(crate) in_flight: Arc<InFlight>,
}

/// How a key is held while a body runs: by an open transaction ([`Claim`]), or by a lease ([`Lease`]).
pub(crate) trait Hold<Db: Backend>: Sized + Send {
    /// The parameters of a claim of this kind.
    type Terms: Sync;

    /// Looks at the key in the database once, and claims it if it is free.
    fn look(
        engine: &Engine<Db>,
        connection: PoolConnection<Db>,
        guard: InFlightGuard,
        request: &ClaimRequest,
        terms: &Self::Terms,
    ) -> impl Future<Output = Result<ClaimOutcome<Self>, StoreError>> + Send;
}

/// Why a body does not run.
pub enum Refusal {
    /// There is a record. The caller compares its fingerprint.
    Completed(StoredRecord),
    /// There is a record in progress with another fingerprint. The caller compares it by the rule that made it.
    InProgressRecord(InProgressRecord),
    /// The same request is running. The duration is the rest of its lease, if it has one.
    InProgress(Option<Duration>),
    /// Another request is running under the key.
    Mismatch(Differences),
    /// The store failed.
    Store(StoreError),
}

/// A failure of the store before the body ran.
#[derive(Debug)]
pub struct StoreError {
    pub(crate) kind: StoreErrorKind,
    /// The error of the database or of the pool, if there was one.
    pub(crate) source: Option<sqlx::Error>,
}

/// What a failure of the store means for the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreErrorKind {
    /// The database cannot be reached or written.
    Unavailable,
    /// The table is missing, of another version, or not permitted.
    Schema,
    /// There is a record whose columns do not decode.
    Unreadable,
}

impl<Db: Backend> Engine<Db> {
    /// Claims the key. Waits for an in-flight duplicate only if `in_progress` says so, and then without a connection.
    pub(crate) async fn claim<H: Hold<Db>>(
        &self,
        request: &ClaimRequest,
        terms: &H::Terms,
        in_progress: InProgress,
    ) -> Result<H, Refusal> {
        let mut waiting = Waiting::new(in_progress);
        let mut looks = 0;
        loop {
            let remaining = match self.look::<H>(request, terms).await.map_err(|error| unclaimed(request, error))? {
                ClaimOutcome::Claimed(held) => return Ok(held),
                ClaimOutcome::Completed(record) => return Err(Refusal::Completed(record)),
                ClaimOutcome::InProgress(record) if request.matches(&record.fingerprint) => Some(record.remaining),
                ClaimOutcome::InProgress(record) => return Err(Refusal::InProgressRecord(record)),
                ClaimOutcome::Running(Conflict { duplicate: Duplicate::Same, remaining }) => remaining,
                ClaimOutcome::Running(Conflict { duplicate: Duplicate::Other(differences), .. }) => {
                    return Err(Refusal::Mismatch(differences));
                }
                ClaimOutcome::LookAgain if looks < MAX_LOOKS => {
                    looks += 1;
                    continue;
                }
                ClaimOutcome::LookAgain => return Err(Refusal::Store(StoreError::unavailable())),
                ClaimOutcome::ReadOnly => {
                    tracing::error!("the database accepts no writes: point the pool to the primary");
                    return Err(Refusal::Store(StoreError::unavailable()));
                }
                ClaimOutcome::NotPermitted => {
                    tracing::error!("grant SELECT, INSERT and UPDATE on `idem_records` to the role of the pool");
                    return Err(Refusal::Store(StoreError { kind: StoreErrorKind::Schema, source: None }));
                }
            };
            waiting.next(&self.in_flight, request).await.map_err(|_| Refusal::InProgress(remaining))?;
        }
    }

    /// Opens a transaction that holds no key.
    pub(crate) async fn open(&self, isolation: Option<Isolation>) -> Result<UnkeyedTransaction<Db>, Refusal> {
        let opened = self.store.begin(isolation, Purpose::Unkeyed).await;
        let transaction = opened.map_err(|error| Refusal::Store(StoreError::of::<Db>(error)))?;
        Ok(UnkeyedTransaction { transaction, timeout: self.store.timeout })
    }

    /// Looks at the key once: in memory, then in the database.
    async fn look<H: Hold<Db>>(&self, request: &ClaimRequest, terms: &H::Terms) -> Result<ClaimOutcome<H>, StoreError> {
        let guard = match timeout(self.store.timeout, self.in_flight.enter(request)).await {
            Ok(Ok(guard)) => guard,
            Ok(Err(conflict)) => return Ok(ClaimOutcome::Running(conflict)),
            Err(_) => {
                log_overdue(self.store.timeout);
                return Err(OverdueError::of_step(self.store.timeout).into());
            }
        };
        let mut connection = self.store.connection().await.map_err(StoreError::of::<Db>)?;
        if Db::READ_FIRST == ReadFirst::Always {
            let found = bounded(self.store.timeout, read(connection, self.store.schema.clone(), request.clone())).await;
            match found?.map_err(StoreError::of::<Db>)? {
                (_, Some(ClaimOutcome::Completed(record))) => return Ok(ClaimOutcome::Completed(record)),
                (_, Some(ClaimOutcome::InProgress(record))) => return Ok(ClaimOutcome::InProgress(record)),
                (unused, _) => connection = unused,
            }
        }
        H::look(self, connection, guard, request, terms).await
    }
}

impl StoreError {
    /// The error of a statement of ours or of the pool.
    fn of<Db: Backend>(source: sqlx::Error) -> Self {
        let kind = match (&source, Db::fault(&source)) {
            (sqlx::Error::ColumnDecode { .. }, _) => StoreErrorKind::Unreadable,
            (_, Fault::Schema) => StoreErrorKind::Schema,
            (_, Fault::Transient | Fault::Aborted | Fault::Unavailable) => StoreErrorKind::Unavailable,
        };
        // What cannot be read is logged with the record's identifier.
        if kind != StoreErrorKind::Unreadable {
            log(&source);
        }
        Self { kind, source: Some(source) }
    }

    /// The database cannot be written, or there is nothing to respond with: no error of the database says so.
    pub(crate) fn unavailable() -> Self {
        Self { kind: StoreErrorKind::Unavailable, source: None }
    }
}

/// It is logged where the time ran out.
impl From<OverdueError> for StoreError {
    fn from(overdue: OverdueError) -> Self {
        Self { kind: StoreErrorKind::Unavailable, source: Some(overdue.into()) }
    }
}

/// The refusal after a failed look.
fn unclaimed(request: &ClaimRequest, error: StoreError) -> Refusal {
    if let StoreError { kind: StoreErrorKind::Unreadable, source: Some(source) } = &error {
        log_unreadable(&request.id, source);
    }
    Refusal::Store(error)
}

/// Logs a record that cannot be replayed. It stays as it is, and no body runs for its key until it expires or is deleted.
pub(crate) fn log_unreadable(id: &RecordId, error: &(dyn std::error::Error + 'static)) {
    tracing::error!(record = %id, error, "a stored record cannot be read");
}

async fn read<Db: Backend>(
    mut connection: PoolConnection<Db>,
    schema: Schema,
    request: ClaimRequest,
) -> Result<(PoolConnection<Db>, Option<ClaimOutcome<Db::Token>>), sqlx::Error> {
    let found = Db::read(&mut connection, &schema, &request).await?;
    Ok((connection, found))
}
