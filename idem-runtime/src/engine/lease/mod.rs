//! A key held in progress by a lease, for effects that live elsewhere: claimed, and renewed while its attempt runs.
//! `ending` ends it; whatever ends it otherwise, such as a kill, leaves the record to the recovery, and never to a retry.

use std::{
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use sqlx::pool::PoolConnection;
use tokio::{sync::oneshot, time::timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{Claim, Engine, Hold, Refusal, Seen, Store, log, log_overdue, read_only, refusal_of};
use crate::{
    backend::{AttemptId, Backend, Fault, Holder, Look, ToLease, Wanted, Written},
    engine::in_flight::Presence,
};

mod settle;

/// A lease is renewed when this part of it has passed: so one renewal may fail, and a short body needs none.
const RENEWALS: u32 = 3;

/// What a claim by lease needs to be told.
pub(crate) struct Leasing {
    pub(crate) attempt: AttemptId,
    pub(crate) length: Duration,
    /// The request, encoded, where the handler stores it.
    pub(crate) request: Option<Vec<u8>>,
}

/// A key held in progress.
pub(crate) struct Lease<Db: Backend> {
    store: Store<Db>,
    holder: Holder,
    /// Ends the renewal when dropped.
    renewal: Option<DropGuard>,
    /// Keeps the key in hand in the process that claimed it, until this is dropped.
    _presence: Option<Arc<Presence>>,
}

impl<Db: Backend> Hold<Db> for Lease<Db> {
    type Terms = Leasing;

    async fn look(
        engine: &Engine<Db>,
        connection: PoolConnection<Db>,
        presence: Presence,
        wanted: &Wanted,
        terms: &Leasing,
    ) -> Result<Seen<Self>, Refusal> {
        let Leasing { attempt, length, request } = terms;
        let wish = ToLease { wanted: wanted.clone(), attempt: *attempt, length: *length, request: request.clone() };
        let sent = Instant::now();
        let mut looked = leased(&engine.store, connection, wish.clone()).await;
        if let Err(error @ (sqlx::Error::Io(_) | sqlx::Error::Protocol(_))) = &looked {
            // The answer was lost, and perhaps not the statement: sent again it meets its own record as claimed.
            log(error);
            looked = match engine.store.connection().await {
                Ok(connection) => leased(&engine.store, connection, wish.clone()).await,
                Err(error) => Err(error),
            };
            if !matches!(looked, Ok(Look::Claimed(()))) {
                give_back(engine.store.clone(), wish.holder());
            }
        }
        match looked {
            Ok(Look::Claimed(())) => {
                let presence = Arc::new(presence);
                presence.runs(wanted, Some(sent + *length));
                Ok(Seen::Claimed(Self::renewed(engine.store.clone(), wish, presence)))
            }
            Ok(Look::Completed(record)) => Ok(Seen::Completed(record)),
            Ok(Look::Held(held)) => Ok(Seen::Held(held)),
            Ok(Look::ReadOnly) => Err(read_only()),
            Ok(_) => who_else(engine, presence, wanted).await,
            Err(error) if Db::fault(&error) == Fault::Transient => Ok(Seen::Nothing),
            Err(error) => Err(refusal_of::<Db>(&error)),
        }
    }
}

impl<Db: Backend> Lease<Db> {
    /// A lease that is renewed for as long as this lives.
    fn renewed(store: Store<Db>, wish: ToLease, presence: Arc<Presence>) -> Self {
        let holder = wish.holder();
        let stop = CancellationToken::new();
        tokio::spawn(renew(store.clone(), wish, Arc::downgrade(&presence), stop.clone()));
        Self { store, holder, renewal: Some(stop.drop_guard()), _presence: Some(presence) }
    }

    /// A lease taken from a dead attempt, which whoever took it means to end within its length.
    pub(crate) fn taken(store: Store<Db>, holder: Holder) -> Self {
        Self { store, holder, renewal: None, _presence: None }
    }

    pub(crate) fn holder(&self) -> &Holder {
        &self.holder
    }
}

/// Sends the claim. One that is granted when nobody waits for it any more is given back, so that no key is held by nobody.
async fn leased<Db: Backend>(
    store: &Store<Db>,
    mut connection: PoolConnection<Db>,
    wish: ToLease,
) -> Result<Look<()>, sqlx::Error> {
    let (answer, mut asked) = oneshot::channel();
    tokio::spawn(async move {
        let looked = Db::lease(&mut connection, &wish).await;
        if matches!(looked, Ok(Look::ReadOnly)) {
            // Not lent again: the next connection may be to a server that accepts writes.
            let _closed = connection.close().await;
            let _unheard = answer.send(looked);
            return;
        }
        if let Err(Ok(Look::Claimed(()))) = answer.send(looked)
            && let Err(error) = Db::release(&mut connection, &wish.holder()).await
        {
            log(&error);
        }
    });
    if let Ok(looked) = timeout(store.patience, &mut asked).await {
        // The task only sends.
        return looked.unwrap_or(Err(sqlx::Error::WorkerCrashed));
    }
    log_overdue(store.patience);
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

/// Neither a record nor the key: a handler with database effects holds it, or something changed in between.
async fn who_else<Db: Backend>(
    engine: &Engine<Db>,
    presence: Presence,
    wanted: &Wanted,
) -> Result<Seen<Lease<Db>>, Refusal> {
    let connection = engine.store.connection().await.map_err(|error| refusal_of::<Db>(&error))?;
    Ok(match Claim::look(engine, connection, presence, wanted, &None).await? {
        Seen::Claimed(claim) => {
            // Free by now. Freed or not, the next look tells.
            let _freed = claim.free().await;
            Seen::Nothing
        }
        Seen::Completed(record) => Seen::Completed(record),
        Seen::Held(held) => Seen::Held(held),
        Seen::Running(met) => Seen::Running(met),
        Seen::Nothing => Seen::Nothing,
    })
}

/// Renews a lease until it is stopped, or the lease is lost. Never stopped within a statement.
async fn renew<Db: Backend>(store: Store<Db>, mut wish: ToLease, presence: Weak<Presence>, stop: CancellationToken) {
    let (holder, length) = (wish.holder(), wish.length);
    // It may be large, and the body may run long.
    wish.request = None;
    let period = length / RENEWALS;
    // A database that is slow is asked again before the lease is over.
    let store = Store { patience: store.patience.min(period / 2), ..store };
    let mut pause = period;
    loop {
        if timeout(pause, stop.cancelled()).await.is_ok() {
            return;
        }
        let sent = Instant::now();
        match store.step(async move |mut connection| Db::renew(&mut connection, &holder, length).await).await {
            Ok(Written::Yes) => {
                if let Some(presence) = presence.upgrade() {
                    presence.runs(&wish.wanted, Some(sent + length));
                }
                pause = period;
            }
            Ok(Written::Lost | Written::Ended) => {
                // From here on twins are answered by the database.
                if let Some(presence) = presence.upgrade() {
                    presence.runs(&wish.wanted, Some(sent));
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
