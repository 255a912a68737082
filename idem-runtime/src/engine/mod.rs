//! Claims over a backend, which know nothing of axum. `ending` settles them; `lease` holds a key without a transaction.
//! A claim is one open transaction; whatever ends it otherwise, such as a drop, rolls it back and frees the key.

use std::{future::Future, sync::Arc, time::Duration};

use sqlx::{Transaction, pool::PoolConnection};
use tokio::time::timeout;

use crate::{
    backend::{Backend, Fault, Held, Look, Opening, Twin, Wanted},
    engine::in_flight::{Met, Presence, Running},
    model::{
        options::{InProgress, Isolation},
        record::Record,
    },
};

pub(crate) mod attempt;
mod caught;
pub(crate) mod in_flight;
mod lease;
mod settle;
mod store;
mod waiting;

pub use caught::{Panicked, caught};
pub(crate) use lease::{Lease, Leasing};
pub(crate) use settle::{Unsettled, Writes};
pub(crate) use store::{Store, unbroken};
use store::{bounded, log, log_overdue};
use waiting::Waiting;

/// How often a key is looked at again when the look fell together with the end of another claim.
const MOST_LOOKS: u32 = 20;

/// Opens and ends claims on one pool.
pub(crate) struct Engine<Db: Backend> {
    pub(crate) store: Store<Db>,
    pub(crate) running: Arc<Running>,
}

/// How a key is held while a handler runs: by an open transaction, or by a lease.
pub(crate) trait Hold<Db: Backend>: Sized + Send {
    /// What a claim of this kind needs to be told.
    type Terms: Sync;

    /// One look at the key in the database, which claims it if it is free.
    fn look(
        engine: &Engine<Db>,
        connection: PoolConnection<Db>,
        presence: Presence,
        wanted: &Wanted,
        terms: &Self::Terms,
    ) -> impl Future<Output = Result<Seen<Self>, Refusal>> + Send;
}

/// A claim: the open transaction and the key it holds.
pub struct Claim<Db: Backend> {
    pub(crate) transaction: Transaction<'static, Db>,
    wanted: Wanted,
    token: Db::Token,
    presence: Presence,
    patience: Duration,
}

/// An open transaction that holds no key.
pub struct Open<Db: Backend> {
    pub(crate) transaction: Transaction<'static, Db>,
    pub(crate) patience: Duration,
}

/// Why a request does not run.
pub enum Refusal {
    /// There is a record; whose request it is of, the caller compares.
    Completed(Record),
    /// There is a record in progress; as with a completed one.
    Held(Held),
    /// What is left of the twin's lease, if it has one.
    InProgress(Option<Duration>),
    Mismatch,
    Unavailable,
    Schema,
    /// There is a record whose columns do not decode.
    Unreadable,
}

/// What a look came to.
pub(crate) enum Seen<H> {
    Claimed(H),
    Completed(Record),
    Held(Held),
    Running(Met),
    /// None of these: look again.
    Nothing,
}

impl<Db: Backend> Engine<Db> {
    /// Claims the key, or says why not. Waits for a twin only if told to, and then without a connection.
    pub(crate) async fn claim<H: Hold<Db>>(
        &self,
        wanted: &Wanted,
        terms: &H::Terms,
        in_progress: InProgress,
    ) -> Result<H, Refusal> {
        let mut waiting = Waiting::new(in_progress);
        let (mut looks, mut doubted) = (0, false);
        loop {
            let remaining = match self.look::<H>(wanted, terms).await? {
                Seen::Claimed(held) => return Ok(held),
                Seen::Completed(record) => return Err(Refusal::Completed(record)),
                Seen::Held(held) if wanted.is(&held.fingerprint) => Some(held.remaining),
                Seen::Held(held) => return Err(Refusal::Held(held)),
                Seen::Running(Met { twin: Twin::Same, remaining }) => remaining,
                // A 422 is final. Under a strict isolation level the snapshot may miss a record that was committed just
                // now, while yet another request holds the lock: look a second time before saying mismatch.
                Seen::Running(_) if !doubted => {
                    doubted = true;
                    continue;
                }
                Seen::Running(_) => return Err(Refusal::Mismatch),
                Seen::Nothing if looks < MOST_LOOKS => {
                    looks += 1;
                    continue;
                }
                Seen::Nothing => return Err(Refusal::Unavailable),
            };
            waiting.next(&self.running, wanted).await.map_err(|_| Refusal::InProgress(remaining))?;
        }
    }

    /// Opens a transaction that holds no key.
    pub(crate) async fn open(&self, isolation: Option<Isolation>) -> Result<Open<Db>, Refusal> {
        let opened = self.store.begin(isolation, Opening::Nothing).await;
        let transaction = opened.map_err(|error| refusal_of::<Db>(&error))?;
        Ok(Open { transaction, patience: self.store.patience })
    }

    /// One look at the key: in memory, then in the database.
    async fn look<H: Hold<Db>>(&self, wanted: &Wanted, terms: &H::Terms) -> Result<Seen<H>, Refusal> {
        let presence = match timeout(self.store.patience, self.running.enter(wanted)).await {
            Ok(Ok(presence)) => presence,
            Ok(Err(met)) => return Ok(Seen::Running(met)),
            Err(_) => {
                log_overdue(self.store.patience);
                return Err(Refusal::Unavailable);
            }
        };
        let mut connection = self.store.connection().await.map_err(|error| refusal_of::<Db>(&error))?;
        if self.running.any_runs() {
            let glanced =
                bounded(self.store.patience, glance(connection, wanted.clone())).await.ok_or(Refusal::Unavailable)?;
            match glanced.map_err(|error| refusal_of::<Db>(&error))? {
                (_, Some(Look::Completed(record))) => return Ok(Seen::Completed(record)),
                (_, Some(Look::Held(held))) => return Ok(Seen::Held(held)),
                (unused, _) => connection = unused,
            }
        }
        H::look(self, connection, presence, wanted, terms).await
    }
}

impl<Db: Backend> Hold<Db> for Claim<Db> {
    type Terms = Option<Isolation>;

    async fn look(
        engine: &Engine<Db>,
        connection: PoolConnection<Db>,
        presence: Presence,
        wanted: &Wanted,
        isolation: &Option<Isolation>,
    ) -> Result<Seen<Self>, Refusal> {
        let patience = engine.store.patience;
        let looked = bounded(patience, begin_and_look(connection, *isolation, wanted.clone()));
        let (transaction, look) = match looked.await.ok_or(Refusal::Unavailable)? {
            Ok(looked) => looked,
            Err(error) if Db::fault(&error) == Fault::Transient => return Ok(Seen::Nothing),
            Err(error) => return Err(refusal_of::<Db>(&error)),
        };
        let refused = match look {
            Look::Claimed(token) => {
                presence.runs(wanted, None);
                return Ok(Seen::Claimed(Self { transaction, wanted: wanted.clone(), token, presence, patience }));
            }
            Look::ReadOnly => {
                // Not lent again: the next connection may be to a server that does.
                bounded(patience, Db::discard(transaction)).await;
                return Err(read_only());
            }
            Look::NotPermitted => {
                tracing::error!("grant SELECT, INSERT and UPDATE on `idem_records` to the role of the pool");
                Err(Refusal::Schema)
            }
            Look::Completed(record) => Ok(Seen::Completed(record)),
            Look::Held(held) => Ok(Seen::Held(held)),
            Look::Running(twin) => Ok(Seen::Running(Met { twin, remaining: None })),
            Look::Nothing => Ok(Seen::Nothing),
        };
        bounded(patience, roll_back(transaction)).await;
        refused
    }
}

async fn roll_back<Db: Backend>(transaction: Transaction<'static, Db>) {
    // An error changes nothing for the key: what was not committed is not there.
    if let Err(error) = transaction.rollback().await {
        log(&error);
    }
}

async fn glance<Db: Backend>(
    mut connection: PoolConnection<Db>,
    wanted: Wanted,
) -> Result<(PoolConnection<Db>, Option<Look<Db::Token>>), sqlx::Error> {
    let look = Db::glance(&mut connection, &wanted).await?;
    Ok((connection, look))
}

async fn begin_and_look<Db: Backend>(
    connection: PoolConnection<Db>,
    isolation: Option<Isolation>,
    wanted: Wanted,
) -> Result<(Transaction<'static, Db>, Look<Db::Token>), sqlx::Error> {
    let opening = Db::begin(isolation, Opening::Claim(&wanted));
    let mut transaction = Transaction::begin(connection, Some(opening)).await?;
    match Db::claim(&mut transaction, &wanted).await {
        Ok(look) => Ok((transaction, look)),
        Err(error) => {
            roll_back(transaction).await;
            Err(error)
        }
    }
}

fn read_only() -> Refusal {
    tracing::error!("the database accepts no writes: point the pool to the primary");
    Refusal::Unavailable
}

fn refusal_of<Db: Backend>(error: &sqlx::Error) -> Refusal {
    log(error);
    match (error, Db::fault(error)) {
        (sqlx::Error::ColumnDecode { .. }, _) => Refusal::Unreadable,
        (_, Fault::Schema) => Refusal::Schema,
        (_, Fault::Transient | Fault::Aborted | Fault::Unavailable) => Refusal::Unavailable,
    }
}
