//! Claim and settle over a backend: owns the transaction and decides how it ends; knows nothing of axum.
//! A claim is one open transaction; whatever ends it without `settle` rolls it back and frees the key.

use std::{future::Future, sync::Arc, time::Duration};

use sqlx::{Pool, Transaction, pool::PoolConnection};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    backend::{Backend, Fault, Look, Twin, Wanted, Written},
    policy::{InProgress, Isolation},
    record::Record,
    running::{Presence, Running},
};

/// Looks at a key that may end without an answer (a race lost by a hair) before giving up.
const MOST_LOOKS: u32 = 20;

/// How long until the next look while a twin runs in another process; doubled each time, up to the second.
const POLL: (Duration, Duration) = (Duration::from_millis(25), Duration::from_millis(400));

/// Opens and ends claims on one pool.
pub(crate) struct Engine<Db: Backend> {
    pub(crate) pool: Pool<Db>,
    /// The longest that any single step against the database may take.
    pub(crate) patience: Duration,
    pub(crate) running: Arc<Running>,
}

/// A claim: the open transaction and, where the request is protected, the key it holds.
pub(crate) struct Claim<Db: Backend> {
    pub(crate) transaction: Transaction<'static, Db>,
    held: Option<Held<Db>>,
    patience: Duration,
}

struct Held<Db: Backend> {
    wanted: Wanted,
    token: Db::Token,
    presence: Presence,
}

/// Why a request does not run.
pub(crate) enum Turned {
    /// There is a record; whose request it is of, the caller compares.
    Completed(Record),
    InProgress,
    Mismatch,
    Unavailable,
    Schema,
}

/// How a claim is to end. A claim that holds no key writes no record.
pub(crate) enum Ending {
    /// The handler's writes commit, the record with them.
    Keep(Option<Record>),
    /// The handler's writes are undone, the record alone commits.
    Undo(Record),
    /// Everything is rolled back; the key is free.
    Free,
    /// Everything is rolled back, to be run again.
    Again,
}

/// How a claim ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    /// As asked.
    Done,
    /// Rolled back; the whole transaction may be run again.
    Again,
    /// Rolled back: the database refused the transaction.
    Aborted,
    /// The handler had ended the transaction itself; nothing is recorded.
    Ended,
    /// Rolled back: the database cannot be reached or written.
    Unavailable,
    /// Rolled back: the table is not as it must be.
    Schema,
    /// COMMIT was sent, its answer is lost.
    Unknown,
}

enum Seen<Db: Backend> {
    Claimed(Claim<Db>),
    Completed(Record),
    Running(Twin),
    /// Neither: look again.
    Nothing,
}

impl<Db: Backend> Engine<Db> {
    /// Claims the key, or says why not. Waits for a twin only if told to, and then without a connection.
    pub(crate) async fn claim(
        &self,
        wanted: &Wanted,
        isolation: Option<Isolation>,
        in_progress: InProgress,
    ) -> Result<Claim<Db>, Turned> {
        let mut waiting = Waiting::new(in_progress);
        let (mut looks, mut doubted) = (0, false);
        loop {
            match self.look(wanted, isolation).await? {
                Seen::Claimed(claim) => return Ok(claim),
                Seen::Completed(record) => return Err(Turned::Completed(record)),
                Seen::Running(Twin::Same) => waiting.next(&self.running, wanted).await?,
                // A 422 is final to a client, and the snapshot of a strict isolation level can be too old to show that
                // the key's own request has just finished and another mismatch holds the lock: ask a second time.
                Seen::Running(Twin::Other) if !doubted => doubted = true,
                Seen::Running(Twin::Other) => return Err(Turned::Mismatch),
                Seen::Nothing if looks < MOST_LOOKS => looks += 1,
                Seen::Nothing => return Err(Turned::Unavailable),
            }
        }
    }

    /// Opens a transaction that holds no key.
    pub(crate) async fn open(&self, isolation: Option<Isolation>) -> Result<Claim<Db>, Turned> {
        let connection = self.connection().await?;
        let begun = Transaction::begin(connection, Some(Db::begin(isolation, None)));
        let transaction = bounded(self.patience, begun).await.ok_or(Turned::Unavailable)?;
        let transaction = transaction.map_err(|error| turned_by::<Db>(&error))?;
        Ok(Claim { transaction, held: None, patience: self.patience })
    }

    /// One look at the key: in memory, then in the database.
    async fn look(&self, wanted: &Wanted, isolation: Option<Isolation>) -> Result<Seen<Db>, Turned> {
        let presence = match timeout(self.patience, self.running.enter(wanted)).await {
            Ok(Ok(presence)) => presence,
            Ok(Err(twin)) => return Ok(Seen::Running(twin)),
            Err(_) => {
                log_overdue(self.patience);
                return Err(Turned::Unavailable);
            }
        };
        let mut connection = self.connection().await?;
        if self.running.any_runs() {
            let glanced =
                bounded(self.patience, glance(connection, wanted.clone())).await.ok_or(Turned::Unavailable)?;
            match glanced.map_err(|error| turned_by::<Db>(&error))? {
                (_, Some(record)) => return Ok(Seen::Completed(record)),
                (unused, None) => connection = unused,
            }
        }
        let looked = bounded(self.patience, begin_and_look(connection, isolation, wanted.clone()));
        match looked.await.ok_or(Turned::Unavailable)? {
            Ok((transaction, Look::Claimed(token))) => {
                presence.runs(wanted);
                let held = Held { wanted: wanted.clone(), token, presence };
                Ok(Seen::Claimed(Claim { transaction, held: Some(held), patience: self.patience }))
            }
            Ok((transaction, Look::ReadOnly)) => {
                tracing::error!("the idempotency store accepts no writes");
                // Not lent again: the next connection may be to a server that does.
                bounded(self.patience, Db::discard(transaction)).await;
                Err(Turned::Unavailable)
            }
            Ok((transaction, look)) => {
                bounded(self.patience, roll_back(transaction)).await;
                match look {
                    Look::Completed(record) => Ok(Seen::Completed(record)),
                    Look::Running(twin) => Ok(Seen::Running(twin)),
                    Look::NotPermitted => {
                        tracing::error!("the table `idem_records` may not be written");
                        Err(Turned::Schema)
                    }
                    _ => Ok(Seen::Nothing),
                }
            }
            Err(error) if Db::fault(&error) == Fault::Transient => Ok(Seen::Nothing),
            Err(error) => Err(turned_by::<Db>(&error)),
        }
    }

    async fn connection(&self) -> Result<PoolConnection<Db>, Turned> {
        // Dropping an acquire is safe, unlike dropping a statement: it has sent nothing.
        if let Ok(acquired) = timeout(self.patience, self.pool.acquire()).await {
            return acquired.map_err(|error| turned_by::<Db>(&error));
        }
        log_overdue(self.patience);
        Err(Turned::Unavailable)
    }
}

impl<Db: Backend> Claim<Db> {
    /// Ends the claim. The key is in hand until the database has answered.
    pub(crate) async fn settle(self, ending: Ending) -> Settled {
        let Self { transaction, held, patience } = self;
        let (key, _presence) = match held {
            Some(Held { wanted, token, presence }) => (Some((wanted, token)), Some(presence)),
            None => (None, None),
        };
        match bounded(patience, prepare(transaction, key, ending)).await {
            Some(Prepared::Commit(transaction)) => commit(patience, transaction).await,
            Some(Prepared::Over(settled)) => settled,
            None => Settled::Unavailable,
        }
    }
}

/// A claim just before its end.
enum Prepared<Db: Backend> {
    /// All is written; only COMMIT is left.
    Commit(Transaction<'static, Db>),
    /// It has ended already.
    Over(Settled),
}

/// Writes the record, or undoes what is to be undone, and proves on the way that the transaction is still the claim's.
async fn prepare<Db: Backend>(
    mut transaction: Transaction<'static, Db>,
    key: Option<(Wanted, Db::Token)>,
    ending: Ending,
) -> Prepared<Db> {
    let undone = match &ending {
        Ending::Keep(_) => Ok(Written::Yes),
        Ending::Undo(_) | Ending::Free | Ending::Again => Db::rewind(&mut transaction).await,
    };
    let written = match (undone, ending, &key) {
        (Ok(Written::Yes), Ending::Free, _) => {
            roll_back(transaction).await;
            return Prepared::Over(Settled::Done);
        }
        (Ok(Written::Yes), Ending::Again, _) => {
            roll_back(transaction).await;
            return Prepared::Over(Settled::Again);
        }
        (Ok(Written::Yes), Ending::Keep(Some(record)) | Ending::Undo(record), Some((wanted, token))) => {
            Db::record(&mut transaction, token, wanted, record).await
        }
        (Ok(Written::Yes), _, _) => Db::release(&mut transaction).await,
        (not_undone, _, _) => not_undone,
    };
    match written {
        Ok(Written::Yes) => Prepared::Commit(transaction),
        Ok(Written::Lost) => {
            roll_back(transaction).await;
            Prepared::Over(Settled::Again)
        }
        Ok(Written::Ended) => {
            Db::discard(transaction).await;
            Prepared::Over(Settled::Ended)
        }
        Err(error) => {
            let settled = settled_by::<Db>(&error);
            // Not left to the drop, which rolls back some time later: the next look would meet this claim's own locks.
            roll_back(transaction).await;
            Prepared::Over(settled)
        }
    }
}

async fn roll_back<Db: Backend>(transaction: Transaction<'static, Db>) {
    // An error changes nothing: what was not committed is not there, and the pool tests what comes back to it.
    if let Err(error) = transaction.rollback().await {
        log(&error);
    }
}

async fn commit<Db: Backend>(patience: Duration, transaction: Transaction<'static, Db>) -> Settled {
    match bounded(patience, transaction.commit()).await {
        Some(Ok(())) => Settled::Done,
        Some(Err(error)) if Db::refused_commit(&error) => settled_by::<Db>(&error),
        Some(Err(error)) => {
            log(&error);
            Settled::Unknown
        }
        None => Settled::Unknown,
    }
}

async fn glance<Db: Backend>(
    mut connection: PoolConnection<Db>,
    wanted: Wanted,
) -> Result<(PoolConnection<Db>, Option<Record>), sqlx::Error> {
    let record = Db::glance(&mut connection, &wanted).await?;
    Ok((connection, record))
}

async fn begin_and_look<Db: Backend>(
    connection: PoolConnection<Db>,
    isolation: Option<Isolation>,
    wanted: Wanted,
) -> Result<(Transaction<'static, Db>, Look<Db::Token>), sqlx::Error> {
    let mut transaction = Transaction::begin(connection, Some(Db::begin(isolation, Some(&wanted)))).await?;
    match Db::claim(&mut transaction, &wanted).await {
        Ok(look) => Ok((transaction, look)),
        Err(error) => {
            roll_back(transaction).await;
            Err(error)
        }
    }
}

/// Runs a step against the database to its end, and waits for it no longer than the limit.
///
/// A step is never dropped midway: sqlx would hand the connection on in whatever state it is (a dropped BEGIN leaves
/// it inside a transaction). It finishes by itself, and the transaction it returns to nobody is rolled back.
async fn bounded<T: Send + 'static>(limit: Duration, step: impl Future<Output = T> + Send + 'static) -> Option<T> {
    let mut step = Box::pin(step);
    if let Ok(done) = timeout(limit, &mut step).await {
        return Some(done);
    }
    log_overdue(limit);
    tokio::spawn(step);
    None
}

fn turned_by<Db: Backend>(error: &sqlx::Error) -> Turned {
    log(error);
    match Db::fault(error) {
        Fault::Schema => Turned::Schema,
        Fault::Transient | Fault::Aborted | Fault::Unavailable => Turned::Unavailable,
    }
}

fn settled_by<Db: Backend>(error: &sqlx::Error) -> Settled {
    let settled = match Db::fault(error) {
        Fault::Transient => return Settled::Again,
        Fault::Aborted => {
            tracing::error!(
                error = error as &dyn std::error::Error,
                "the database refused the handler's transaction: a statement in it failed, or a constraint at its end"
            );
            return Settled::Aborted;
        }
        Fault::Schema => Settled::Schema,
        Fault::Unavailable => Settled::Unavailable,
    };
    log(error);
    settled
}

fn log(error: &sqlx::Error) {
    tracing::error!(error = error as &dyn std::error::Error, "the idempotency store failed");
}

fn log_overdue(limit: Duration) {
    tracing::error!(?limit, "the idempotency store did not answer in time");
}

/// The waiting of a request for its twin.
enum Waiting {
    No,
    Until { deadline: Instant, poll: Duration },
}

impl Waiting {
    fn new(in_progress: InProgress) -> Self {
        match in_progress {
            InProgress::Reject => Self::No,
            InProgress::Wait(limit) => Self::Until { deadline: Instant::now() + limit, poll: POLL.0 },
        }
    }

    /// Waits until another look makes sense; an error once the time is up.
    async fn next(&mut self, running: &Running, wanted: &Wanted) -> Result<(), Turned> {
        let Self::Until { deadline, poll } = self else { return Err(Turned::InProgress) };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Turned::InProgress);
        }
        if running.has(wanted) {
            // Out of time or not, the next look tells.
            let _ = timeout(left, running.end(wanted)).await;
        } else {
            sleep(left.min(*poll)).await;
            *poll = POLL.1.min(*poll * 2);
        }
        Ok(())
    }
}
