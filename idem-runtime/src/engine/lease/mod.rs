//! A key held in progress by a lease, for effects that live elsewhere: claimed, and renewed while its attempt runs.
//! `ending` ends it; whatever ends it otherwise, such as a kill, leaves the record to the recovery, and never to a retry.

use std::{
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use sqlx::pool::PoolConnection;
use tokio::{sync::oneshot, time::timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{Claim, Engine, Hold, Store, StoreError, log, log_overdue};
use crate::{
    backend::{AttemptId, Backend, ClaimOutcome, ClaimRequest, Fault, Holder, LeaseRequest, Written},
    engine::in_flight::InFlightGuard,
};

mod settle;

/// A lease is renewed when this part of it has passed: so one renewal may fail, and a short body needs none.
const RENEWALS: u32 = 3;

/// What a claim by lease needs to be told.
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
    /// Keeps the key in hand in the process that claimed it, until this is dropped.
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
        if let Err(error @ (sqlx::Error::Io(_) | sqlx::Error::Protocol(_))) = &leased {
            // The response was lost, and perhaps not the statement: sent again it finds its own record as claimed.
            log(error);
            leased = match engine.store.connection().await {
                Ok(connection) => send(&engine.store, connection, lease.clone()).await,
                Err(error) => Err(error),
            };
            if !matches!(leased, Ok(ClaimOutcome::Claimed(()))) {
                give_back(engine.store.clone(), lease.holder());
            }
        }
        match leased.map(ClaimOutcome::claimed) {
            Ok(Ok(())) => {
                let guard = Arc::new(guard);
                guard.runs(request, Some(sent + *length));
                Ok(ClaimOutcome::Claimed(Self::renewed(engine.store.clone(), lease, guard)))
            }
            Ok(Err(ClaimOutcome::LookAgain)) => look_in_transaction(engine, guard, request).await,
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

    /// A lease taken from a dead attempt, which whoever took it means to end within its length.
    pub(crate) fn taken(store: Store<Db>, holder: Holder) -> Self {
        Self { store, holder, renewal: None, _guard: None }
    }

    pub(crate) fn holder(&self) -> &Holder {
        &self.holder
    }
}

/// Sends the claim. One that is granted when nobody waits for it any more is given back, so that no key is held by nobody.
async fn send<Db: Backend>(
    store: &Store<Db>,
    mut connection: PoolConnection<Db>,
    lease: LeaseRequest,
) -> Result<ClaimOutcome<()>, sqlx::Error> {
    let (answer, mut asked) = oneshot::channel();
    tokio::spawn(async move {
        let looked = Db::lease(&mut connection, &lease).await;
        if matches!(looked, Ok(ClaimOutcome::ReadOnly)) {
            // Not param again: the next connection may be to a server that accepts writes.
            let _closed = connection.close().await;
            let _unheard = answer.send(looked);
            return;
        }
        if let Err(Ok(ClaimOutcome::Claimed(()))) = answer.send(looked)
            && let Err(error) = Db::release(&mut connection, &lease.holder()).await
        {
            log(&error);
        }
    });
    if let Ok(looked) = timeout(store.timeout, &mut asked).await {
        // The task only sends.
        return looked.unwrap_or(Err(sqlx::Error::WorkerCrashed));
    }
    log_overdue(store.timeout);
    asked.close();
    // What was sent just before is not lost.
    asked.try_recv().unwrap_or(Err(sqlx::Error::PoolTimedOut))
}

/// Frees the key of a claim of which nobody knows whether it was granted. If that fails too, the recovery has it.
fn give_back<Db: Backend>(store: Store<Db>, holder: Holder) {
    tokio::spawn(async move {
        let released = store.step(async move |mut connection| Db::release(&mut connection, &holder).await);
        if let Err(error) = released.await {
            log(&error);
        }
    });
}

/// Looks for a handler with database effects that holds the key: the lease's statement found neither a record nor the key
/// free.
async fn look_in_transaction<Db: Backend>(
    engine: &Engine<Db>,
    guard: InFlightGuard,
    request: &ClaimRequest,
) -> Result<ClaimOutcome<Lease<Db>>, StoreError> {
    let connection = engine.store.connection().await.map_err(StoreError::of::<Db>)?;
    match Claim::look(engine, connection, guard, request, &None).await?.claimed() {
        Ok(claim) => {
            // The key is free by now. Whether or not this rollback succeeds, the next look finds out.
            let _freed = claim.free().await;
            Ok(ClaimOutcome::LookAgain)
        }
        Err(other) => Ok(other),
    }
}

/// Renews a lease until it is stopped, or the lease is lost. Never stopped within a statement.
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
    // A database that is slow is asked again before the lease is over.
    let store = Store { timeout: store.timeout.min(period / 2), ..store };
    let mut pause = period;
    loop {
        if timeout(pause, stop.cancelled()).await.is_ok() {
            return;
        }
        let sent = Instant::now();
        match store.step(async move |mut connection| Db::renew(&mut connection, &holder, length).await).await {
            Ok(Written::Yes) => {
                if let Some(guard) = guard.upgrade() {
                    guard.runs(&lease.claim, Some(sent + length));
                }
                pause = period;
            }
            Ok(Written::Lost | Written::Ended) => {
                // From here on twins are answered by the database.
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
