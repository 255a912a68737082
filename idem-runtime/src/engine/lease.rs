//! A key held in progress by a lease, for effects that live elsewhere: claimed, renewed while its attempt runs, and ended.
//! Whatever ends it otherwise, such as a kill, leaves the record in progress: the recovery decides it, never a retry.

use std::{
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use sqlx::{Transaction, pool::PoolConnection};
use tokio::{sync::oneshot, time::timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    Claim, Engine, Hold, Refusal, Seen, Store, Unsettled, Writes,
    ending::{free, settle, to_commit},
    log, log_overdue, read_only, refusal_of,
};
use crate::{
    backend::{AttemptId, Backend, Fault, Holder, Look, ToLease, Wanted, Written},
    record::Record,
    running::Presence,
};

/// A lease is renewed when this part of it has passed: so one renewal may fail, and a short body needs none.
const RENEWALS: u32 = 3;

/// How often a statement that stands alone is sent again if it lost against others (serialization failure, deadlock).
const MOST_TRIES: u32 = 3;

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
            if looked.is_err() {
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

    /// Writes the record, and commits the transaction with it if there is one and its writes are kept.
    pub(crate) async fn complete(
        mut self,
        transaction: Option<Transaction<'static, Db>>,
        writes: Writes,
        record: Record,
    ) -> Result<(), Unsettled> {
        drop(self.renewal.take());
        let (patience, holder) = (self.store.patience, self.holder);
        let completed = match (transaction, writes) {
            (Some(mut transaction), Writes::Keep) => {
                settle(patience, async move {
                    let written = Db::complete_within(&mut transaction, &holder, record).await;
                    if let Ok(Written::Lost) = written {
                        log_lost();
                    }
                    to_commit(transaction, written).await
                })
                .await
            }
            (unwanted, Writes::Keep | Writes::Drop) => match self.undone(unwanted).await {
                Ok(()) => self.complete_alone(record).await,
                undone => undone,
            },
        };
        self.ended(completed).await
    }

    /// Rolls the transaction back and deletes the record in progress; the key is free.
    pub(crate) async fn free(mut self, transaction: Option<Transaction<'static, Db>>) -> Result<(), Unsettled> {
        drop(self.renewal.take());
        let holder = self.holder;
        let freed = match self.undone(transaction).await {
            Ok(()) => {
                let released = self.store.step(async move |mut connection| Db::release(&mut connection, &holder).await);
                done(released.await)
            }
            undone => undone,
        };
        self.ended(freed).await
    }

    /// Rolls the transaction back and leaves the record in progress, its lease at an end: the recovery decides at once.
    pub(crate) async fn leave(mut self, transaction: Option<Transaction<'static, Db>>) -> Result<(), Unsettled> {
        drop(self.renewal.take());
        let undone = self.undone(transaction).await;
        match self.lapse().await {
            // Another has decided, or is about to: what this attempt has to say is not the answer to the request.
            Ok(Written::Lost | Written::Ended) => done(Ok(Written::Lost)),
            _ => undone,
        }
    }

    /// Leaves the record in progress, to be asked about again after a pause.
    pub(crate) async fn postpone(
        self,
        transaction: Option<Transaction<'static, Db>>,
        pause: Duration,
        error: Option<String>,
    ) -> Result<(), Unsettled> {
        let holder = self.holder;
        let undone = self.undone(transaction).await;
        let postponed = self.store.step(async move |mut connection| {
            Db::postpone(&mut connection, &holder, pause, error.as_deref(), None).await
        });
        done(postponed.await).and(undone)
    }

    /// Leaves the record in progress, to be asked about at once and as if for the first time.
    pub(crate) async fn ask_again(self) -> Result<(), Unsettled> {
        let holder = self.holder;
        let postponed = self.store.step(async move |mut connection| {
            Db::postpone(&mut connection, &holder, Duration::ZERO, None, Some(0)).await
        });
        done(postponed.await)
    }

    async fn complete_alone(&self, record: Record) -> Result<(), Unsettled> {
        let holder = self.holder;
        let mut tries = 1;
        loop {
            let record = record.clone();
            let completed =
                self.store.step(async move |mut connection| Db::complete(&mut connection, &holder, record).await).await;
            match completed {
                Err(error) if tries < MOST_TRIES && Db::fault(&error) == Fault::Transient => tries += 1,
                completed => return done(completed),
            }
        }
    }

    async fn undone(&self, transaction: Option<Transaction<'static, Db>>) -> Result<(), Unsettled> {
        match transaction {
            Some(transaction) => settle(self.store.patience, free(transaction)).await,
            None => Ok(()),
        }
    }

    /// What did not end as asked is left to the recovery; whether anything was saved, it finds out.
    async fn ended(self, settled: Result<(), Unsettled>) -> Result<(), Unsettled> {
        let Err(unsettled) = settled else { return Ok(()) };
        let _lapsed = self.lapse().await;
        Err(match unsettled {
            Unsettled::Aborted | Unsettled::Ended => unsettled,
            Unsettled::Again | Unsettled::Unavailable | Unsettled::Schema | Unsettled::Unknown => Unsettled::Unknown,
        })
    }

    /// Ends the lease, if it is still this one's.
    async fn lapse(&self) -> Result<Written, sqlx::Error> {
        let holder = self.holder;
        let lapsed =
            self.store.step(async move |mut connection| Db::renew(&mut connection, &holder, Duration::ZERO).await);
        lapsed.await.inspect_err(log)
    }
}

fn log_lost() {
    tracing::warn!("an attempt has lost its lease: another has decided its record, or is about to");
}

/// What a statement that stands alone came to. Where it failed nobody knows whether it did.
fn done(written: Result<Written, sqlx::Error>) -> Result<(), Unsettled> {
    match written {
        Ok(Written::Yes) => Ok(()),
        Ok(Written::Lost | Written::Ended) => {
            log_lost();
            Err(Unsettled::Unknown)
        }
        Err(error) => {
            log(&error);
            Err(Unsettled::Unknown)
        }
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
async fn renew<Db: Backend>(store: Store<Db>, wish: ToLease, presence: Weak<Presence>, stop: CancellationToken) {
    let (holder, length) = (wish.holder(), wish.length);
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
