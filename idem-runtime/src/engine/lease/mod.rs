//! A key held in progress by a lease, for effects in other systems: claimed, and renewed while its attempt runs.
//! `settle` ends it. Any other end, such as a kill, leaves the record to the recovery and never to a retry.

use std::{
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use sqlx::pool::PoolConnection;
use tokio::{sync::oneshot, time::timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    Claim, Engine, Hold, Store, StoreError, TransactionTerms, log, log_overdue,
    store::{OverdueError, is_overdue},
};
use crate::{
    backend::{AttemptId, Backend, ClaimOutcome, ClaimRequest, Fault, Holder, LeaseRequest, OpenClaims, WriteOutcome},
    engine::in_flight::InFlightGuard,
};

mod settle;

/// A lease is renewed when this part of it has passed. One renewal may fail, and a short body needs none.
const RENEWALS: u32 = 3;

/// The parameters of a claim by lease.
pub(crate) struct LeaseTerms {
    pub(crate) attempt: AttemptId,
    pub(crate) length: Duration,
    /// The encoded request, if the handler stores it.
    pub(crate) stored_request: Option<Vec<u8>>,
}

/// A key held in progress.
pub(crate) struct Lease<Db: Backend> {
    store: Store<Db>,
    holder: Holder,
    /// Ends the renewal when dropped.
    renewal: Option<DropGuard>,
    /// Keeps the key in flight in the process that claimed it, until this is dropped.
    _guard: Option<Arc<InFlightGuard>>,
}

impl<Db: Backend> Hold<Db> for Lease<Db> {
    type Terms = LeaseTerms;

    async fn look(
        engine: &Engine<Db>,
        connection: PoolConnection<Db>,
        guard: InFlightGuard,
        request: &ClaimRequest,
        terms: &LeaseTerms,
    ) -> Result<ClaimOutcome<Self>, StoreError> {
        let LeaseTerms { attempt, length, stored_request } = terms;
        let lease = LeaseRequest {
            claim: request.clone(),
            attempt: *attempt,
            length: *length,
            stored_request: stored_request.clone(),
        };
        let sent = Instant::now();
        let mut leased = send(&engine.store, connection, lease.clone()).await;
        if let Err(error @ (sqlx::Error::Io(_) | sqlx::Error::Protocol(_))) = &leased
            && !is_overdue(error)
        {
            // The response was lost, but the statement may have run: sent again, it finds its own record as claimed.
            log(error);
            leased = match engine.store.connection().await {
                Ok(connection) => send(&engine.store, connection, lease.clone()).await,
                Err(error) => Err(error),
            };
            if !matches!(leased, Ok(ClaimOutcome::Claimed(()))) {
                release_in_background(engine.store.clone(), lease.holder());
            }
        }
        match leased.map(ClaimOutcome::claimed) {
            Ok(Ok(())) => {
                let guard = Arc::new(guard);
                guard.runs(request, Some(sent + *length));
                Ok(ClaimOutcome::Claimed(Self::renewed(engine.store.clone(), lease, guard)))
            }
            Ok(Err(ClaimOutcome::LookAgain)) if Db::OPEN_CLAIMS == OpenClaims::Unseen => {
                look_in_transaction(engine, guard, request).await
            }
            Ok(Err(other)) => Ok(other),
            Err(error) if Db::fault(&error) == Fault::Transient => Ok(ClaimOutcome::LookAgain),
            Err(error) => Err(StoreError::of::<Db>(error)),
        }
    }
}

impl<Db: Backend> Lease<Db> {
    /// A lease that is renewed for as long as this lives.
    fn renewed(store: Store<Db>, lease: LeaseRequest, guard: Arc<InFlightGuard>) -> Self {
        let holder = lease.holder();
        let stop = CancellationToken::new();
        tokio::spawn(renew(store.clone(), lease, Arc::downgrade(&guard), stop.clone()));
        Self { store, holder, renewal: Some(stop.drop_guard()), _guard: Some(guard) }
    }

    /// A lease taken over from a stalled attempt. It is not renewed: the caller settles it within its length.
    pub(crate) fn taken_over(store: Store<Db>, holder: Holder) -> Self {
        Self { store, holder, renewal: None, _guard: None }
    }

    pub(crate) fn holder(&self) -> &Holder {
        &self.holder
    }
}

/// Sends the claim. If it is granted after its caller has gone, it is released: no key stays held without an attempt.
async fn send<Db: Backend>(
    store: &Store<Db>,
    mut connection: PoolConnection<Db>,
    lease: LeaseRequest,
) -> Result<ClaimOutcome<()>, sqlx::Error> {
    let (sender, mut receiver) = oneshot::channel();
    let schema = store.schema.clone();
    tokio::spawn(async move {
        let looked = Db::lease(&mut connection, &schema, &lease).await;
        if matches!(looked, Ok(ClaimOutcome::ReadOnly)) {
            // Not back to the pool: the next connection may be to a server that accepts writes.
            let _closed = connection.close().await;
            let _receiver_gone = sender.send(looked);
            return;
        }
        if let Err(Ok(ClaimOutcome::Claimed(()))) = sender.send(looked)
            && let Err(error) = Db::release(&mut connection, &schema, &lease.holder()).await
        {
            log(&error);
        }
    });
    if let Ok(looked) = timeout(store.timeout, &mut receiver).await {
        // The task always sends, unless the runtime shuts down.
        return looked.unwrap_or(Err(sqlx::Error::WorkerCrashed));
    }
    log_overdue(store.timeout);
    receiver.close();
    // A response that was sent just before still counts.
    receiver.try_recv().unwrap_or_else(|_| Err(OverdueError::of_step(store.timeout).into()))
}

/// Releases the key of a claim that may have been granted. If that fails too, the record is left to the recovery.
fn release_in_background<Db: Backend>(store: Store<Db>, holder: Holder) {
    tokio::spawn(async move {
        let released =
            store.step(async move |mut connection, schema| Db::release(&mut connection, &schema, &holder).await);
        if let Err(error) = released.await {
            log(&error);
        }
    });
}

/// Looks for a handler with database effects that holds the key. The lease's statement found neither a record nor the key
/// free.
async fn look_in_transaction<Db: Backend>(
    engine: &Engine<Db>,
    guard: InFlightGuard,
    request: &ClaimRequest,
) -> Result<ClaimOutcome<Lease<Db>>, StoreError> {
    let connection = engine.store.connection().await.map_err(StoreError::of::<Db>)?;
    match Claim::look(engine, connection, guard, request, &TransactionTerms::default()).await?.claimed() {
        Ok(claim) => {
            // The key is free by now. If this rollback fails, the next look finds out.
            let _released = claim.release().await;
            Ok(ClaimOutcome::LookAgain)
        }
        Err(other) => Ok(other),
    }
}

/// Renews a lease until it is stopped, or the lease is lost. A statement is never stopped midway.
async fn renew<Db: Backend>(
    store: Store<Db>,
    mut lease: LeaseRequest,
    guard: Weak<InFlightGuard>,
    stop: CancellationToken,
) {
    let (holder, length) = (lease.holder(), lease.length);
    // It may be large, and the body may run long.
    lease.stored_request = None;
    let period = length / RENEWALS;
    // A slow database gets another renewal before the lease is over.
    let store = Store { timeout: store.timeout.min(period / 2), ..store };
    let mut pause = period;
    loop {
        if timeout(pause, stop.cancelled()).await.is_ok() {
            return;
        }
        let sent = Instant::now();
        match store
            .step(async move |mut connection, schema| Db::renew(&mut connection, &schema, &holder, length).await)
            .await
        {
            Ok(WriteOutcome::Written) => {
                if let Some(guard) = guard.upgrade() {
                    guard.runs(&lease.claim, Some(sent + length));
                }
                pause = period;
            }
            Ok(WriteOutcome::Lost | WriteOutcome::TransactionEnded | WriteOutcome::TableHidden) => {
                // From here on the database responds to duplicates.
                if let Some(guard) = guard.upgrade() {
                    guard.runs(&lease.claim, Some(sent));
                }
                return;
            }
            Err(error) => {
                log(&error);
                pause = period / 4;
            }
        }
    }
}
