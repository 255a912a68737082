//! Claims over a backend: owns the transaction, and knows nothing of axum. `ending` settles them.
//! A claim is one open transaction; whatever ends it otherwise, such as a drop, rolls it back and frees the key.

use std::{future::Future, sync::Arc, time::Duration};

use sqlx::{Pool, Transaction, pool::PoolConnection};
use tokio::time::timeout;

use crate::{
    backend::{Backend, Fault, Look, Twin, Wanted},
    policy::{InProgress, Isolation},
    record::Record,
    running::{Presence, Running},
};

mod ending;
mod waiting;

pub(crate) use ending::{Unsettled, Writes};
use waiting::Waiting;

/// How often a key is looked at again when the look fell together with the end of another claim.
const MOST_LOOKS: u32 = 20;

/// Opens and ends claims on one pool.
pub(crate) struct Engine<Db: Backend> {
    pub(crate) pool: Pool<Db>,
    /// The longest that any single step against the database may take.
    pub(crate) patience: Duration,
    pub(crate) running: Arc<Running>,
}

/// A claim: the open transaction and the key it holds.
pub(crate) struct Claim<Db: Backend> {
    pub(crate) transaction: Transaction<'static, Db>,
    wanted: Wanted,
    token: Db::Token,
    presence: Presence,
    patience: Duration,
}

/// An open transaction that holds no key.
pub(crate) struct Open<Db: Backend> {
    pub(crate) transaction: Transaction<'static, Db>,
    patience: Duration,
}

/// Why a request does not run.
pub(crate) enum Refusal {
    /// There is a record; whose request it is of, the caller compares.
    Completed(Record),
    InProgress,
    Mismatch,
    Unavailable,
    Schema,
    /// There is a record whose columns do not decode.
    Unreadable,
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
    ) -> Result<Claim<Db>, Refusal> {
        let mut waiting = Waiting::new(in_progress);
        let (mut looks, mut doubted) = (0, false);
        loop {
            match self.look(wanted, isolation).await? {
                Seen::Claimed(claim) => return Ok(claim),
                Seen::Completed(record) => return Err(Refusal::Completed(record)),
                Seen::Running(Twin::Same) => waiting.next(&self.running, wanted).await?,
                // A 422 is final. Under a strict isolation level the snapshot may miss a record that was committed just
                // now, while yet another request holds the lock: look a second time before saying mismatch.
                Seen::Running(Twin::Other) if !doubted => doubted = true,
                Seen::Running(Twin::Other) => return Err(Refusal::Mismatch),
                Seen::Nothing if looks < MOST_LOOKS => looks += 1,
                Seen::Nothing => return Err(Refusal::Unavailable),
            }
        }
    }

    /// Opens a transaction that holds no key.
    pub(crate) async fn open(&self, isolation: Option<Isolation>) -> Result<Open<Db>, Refusal> {
        let connection = self.connection().await?;
        let opened = bounded(self.patience, begin_and_mark(connection, isolation)).await.ok_or(Refusal::Unavailable)?;
        let transaction = opened.map_err(|error| refusal_of::<Db>(&error))?;
        Ok(Open { transaction, patience: self.patience })
    }

    /// One look at the key: in memory, then in the database.
    async fn look(&self, wanted: &Wanted, isolation: Option<Isolation>) -> Result<Seen<Db>, Refusal> {
        let presence = match timeout(self.patience, self.running.enter(wanted)).await {
            Ok(Ok(presence)) => presence,
            Ok(Err(twin)) => return Ok(Seen::Running(twin)),
            Err(_) => {
                log_overdue(self.patience);
                return Err(Refusal::Unavailable);
            }
        };
        let mut connection = self.connection().await?;
        if self.running.any_runs() {
            let glanced =
                bounded(self.patience, glance(connection, wanted.clone())).await.ok_or(Refusal::Unavailable)?;
            match glanced.map_err(|error| refusal_of::<Db>(&error))? {
                (_, Some(record)) => return Ok(Seen::Completed(record)),
                (unused, None) => connection = unused,
            }
        }
        let looked = bounded(self.patience, begin_and_look(connection, isolation, wanted.clone()));
        match looked.await.ok_or(Refusal::Unavailable)? {
            Ok((transaction, Look::Claimed(token))) => {
                presence.runs(wanted);
                let (wanted, patience) = (wanted.clone(), self.patience);
                Ok(Seen::Claimed(Claim { transaction, wanted, token, presence, patience }))
            }
            Ok((transaction, Look::ReadOnly)) => {
                tracing::error!("the database accepts no writes: point the pool to the primary");
                // Not lent again: the next connection may be to a server that does.
                bounded(self.patience, Db::discard(transaction)).await;
                Err(Refusal::Unavailable)
            }
            Ok((transaction, Look::Completed(record))) => {
                bounded(self.patience, roll_back(transaction)).await;
                Ok(Seen::Completed(record))
            }
            Ok((transaction, Look::Running(twin))) => {
                bounded(self.patience, roll_back(transaction)).await;
                Ok(Seen::Running(twin))
            }
            Ok((transaction, Look::Nothing)) => {
                bounded(self.patience, roll_back(transaction)).await;
                Ok(Seen::Nothing)
            }
            Ok((transaction, Look::NotPermitted)) => {
                tracing::error!("grant SELECT, INSERT and UPDATE on `idem_records` to the role of the pool");
                bounded(self.patience, roll_back(transaction)).await;
                Err(Refusal::Schema)
            }
            Err(error) if Db::fault(&error) == Fault::Transient => Ok(Seen::Nothing),
            Err(error) => Err(refusal_of::<Db>(&error)),
        }
    }

    async fn connection(&self) -> Result<PoolConnection<Db>, Refusal> {
        // Dropping an acquire is safe, unlike dropping a statement: sqlx closes a connection that it had in hand.
        if let Ok(acquired) = timeout(self.patience, self.pool.acquire()).await {
            return acquired.map_err(|error| refusal_of::<Db>(&error));
        }
        log_overdue(self.patience);
        Err(Refusal::Unavailable)
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
) -> Result<(PoolConnection<Db>, Option<Record>), sqlx::Error> {
    let record = Db::glance(&mut connection, &wanted).await?;
    Ok((connection, record))
}

async fn begin_and_mark<Db: Backend>(
    connection: PoolConnection<Db>,
    isolation: Option<Isolation>,
) -> Result<Transaction<'static, Db>, sqlx::Error> {
    let mut transaction = Transaction::begin(connection, Some(Db::begin(isolation, None))).await?;
    match Db::mark(&mut transaction).await {
        Ok(()) => Ok(transaction),
        Err(error) => {
            roll_back(transaction).await;
            Err(error)
        }
    }
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
/// it inside a transaction). It finishes by itself, and a transaction that it returns to nobody is rolled back.
async fn bounded<T: Send + 'static>(limit: Duration, step: impl Future<Output = T> + Send + 'static) -> Option<T> {
    let mut step = Box::pin(step);
    if let Ok(done) = timeout(limit, &mut step).await {
        return Some(done);
    }
    log_overdue(limit);
    tokio::spawn(step);
    None
}

fn refusal_of<Db: Backend>(error: &sqlx::Error) -> Refusal {
    log(error);
    match (error, Db::fault(error)) {
        (sqlx::Error::ColumnDecode { .. }, _) => Refusal::Unreadable,
        (_, Fault::Schema) => Refusal::Schema,
        (_, Fault::Transient | Fault::Aborted | Fault::Unavailable) => Refusal::Unavailable,
    }
}

fn log(error: &sqlx::Error) {
    tracing::error!(error = error as &dyn std::error::Error, "the idempotency store failed");
}

fn log_overdue(limit: Duration) {
    tracing::error!(?limit, "the idempotency store did not answer in time");
}
