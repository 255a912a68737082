//! The end of a claim, or of a transaction without a key: recorded, kept, freed, or why not.
//! Each takes what it ends, so nothing is ended twice.

use std::{future::Future, time::Duration};

use sqlx::Transaction;
use sqlx_core::transaction::TransactionManager;

use super::{Claim, UnkeyedTransaction, bounded, claim::roll_back, log};
use crate::{
    backend::{Backend, Fault, Written},
    model::record::Record,
};

/// What is to become of the handler's writes when its answer is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// They commit with the record.
    Keep,
    /// They are undone, the record alone commits.
    Drop,
}

/// A transaction or a lease that did not settle as intended.
#[derive(Debug)]
pub struct Unsettled {
    pub(crate) reason: Reason,
    /// The error of the database or of the pool, if there was one.
    pub(crate) source: Option<sqlx::Error>,
}

/// Why it did not settle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Rolled back; the whole transaction may run again.
    RunAgain,
    /// Rolled back: the database refused the transaction.
    Aborted,
    /// The handler ended the transaction itself; nothing is recorded.
    TransactionEnded,
    /// Rolled back: the database cannot be reached or written.
    Unavailable,
    /// Rolled back: the table is not as it must be.
    Schema,
    /// The response to COMMIT was lost.
    Unknown,
}

impl From<Reason> for Unsettled {
    fn from(reason: Reason) -> Self {
        Self { reason, source: None }
    }
}

impl<Db: Backend> Claim<Db> {
    /// The fingerprint that the record is to have.
    pub(crate) fn fingerprint(&self) -> Vec<u8> {
        self.request.fingerprint.to_bytes()
    }

    /// Commits the record, and the handler's writes if they are kept.
    pub(crate) async fn record(self, writes: Writes, record: Record) -> Result<(), Unsettled> {
        let Self { transaction, request, token, guard, timeout } = self;
        let settled = settle(timeout, async move {
            let mut transaction = transaction;
            let undone = match writes {
                Writes::Keep => Ok(Written::Yes),
                Writes::Drop => Db::rewind(&mut transaction).await,
            };
            let written = match undone {
                Ok(Written::Yes) => Db::record(&mut transaction, &token, &request, record).await,
                not_undone => not_undone,
            };
            to_commit(transaction, written).await
        })
        .await;
        // The key stays in flight until the database has responded, or the timeout is over.
        drop(guard);
        settled
    }

    /// Rolls everything back; the key is free.
    pub(crate) async fn free(self) -> Result<(), Unsettled> {
        let settled = settle(self.timeout, free(self.transaction)).await;
        drop(self.guard);
        settled
    }
}

impl<Db: Backend> UnkeyedTransaction<Db> {
    /// Commits the handler's writes.
    pub(crate) async fn keep(self) -> Result<(), Unsettled> {
        let mut transaction = self.transaction;
        settle(self.timeout, async move {
            let sound = Db::verify(&mut transaction).await;
            to_commit(transaction, sound).await
        })
        .await
    }

    /// Rolls everything back.
    pub(crate) async fn free(self) -> Result<(), Unsettled> {
        settle(self.timeout, free(self.transaction)).await
    }
}

/// A transaction just before its end.
pub(super) enum Prepared<Db: Backend> {
    /// All is written; only COMMIT is left.
    Commit(Transaction<'static, Db>),
    /// It has ended already.
    Over(Result<(), Unsettled>),
}

/// Takes the last steps of a transaction. COMMIT is a step of its own, since only its answer can be lost for good.
pub(super) async fn settle<Db: Backend>(
    timeout: Duration,
    preparing: impl Future<Output = Prepared<Db>> + Send + 'static,
) -> Result<(), Unsettled> {
    match bounded(timeout, preparing).await {
        Some(Prepared::Commit(transaction)) => commit(timeout, transaction).await,
        Some(Prepared::Over(settled)) => settled,
        None => Err(Reason::Unavailable.into()),
    }
}

/// Goes on to COMMIT if all is written and still in the transaction that was opened; gives up everything else.
pub(super) async fn to_commit<Db: Backend>(
    transaction: Transaction<'static, Db>,
    written: Result<Written, sqlx::Error>,
) -> Prepared<Db> {
    match written {
        Ok(Written::Yes) if is_outermost(&transaction) => Prepared::Commit(transaction),
        not_written => Prepared::Over(Err(give_up(transaction, not_written).await)),
    }
}

pub(super) async fn free<Db: Backend>(mut transaction: Transaction<'static, Db>) -> Prepared<Db> {
    Prepared::Over(match Db::rewind(&mut transaction).await {
        Ok(Written::Yes) if is_outermost(&transaction) => {
            roll_back(transaction).await;
            Ok(())
        }
        // It cannot be undone, or not be proved to be.
        not_undone => Err(give_up(transaction, not_undone).await),
    })
}

/// Ends a transaction that does not commit, and returns why it does not.
async fn give_up<Db: Backend>(
    transaction: Transaction<'static, Db>,
    written: Result<Written, sqlx::Error>,
) -> Unsettled {
    let unsettled = match written {
        Ok(Written::Lost) => Reason::RunAgain.into(),
        Ok(Written::Yes | Written::Ended) => Reason::TransactionEnded.into(),
        Err(error) => Unsettled::of(Db::fault(&error), error),
    };
    if unsettled.reason == Reason::TransactionEnded || !is_outermost(&transaction) {
        Db::discard(transaction).await;
    } else {
        // Not left to the drop, which rolls back some time later: the next look would meet this claim's own locks.
        roll_back(transaction).await;
    }
    unsettled
}

/// Whether sqlx counts this transaction and none inside it. Its COMMIT and ROLLBACK go by that count: with a nested
/// transaction that a handler leaked they would end that one, and report success. Called after a statement, because
/// SQLite's worker decrements the count for a dropped transaction only when it reaches it.
fn is_outermost<Db: Backend>(transaction: &Transaction<'static, Db>) -> bool {
    Db::TransactionManager::get_transaction_depth(transaction) == 1
}

async fn commit<Db: Backend>(timeout: Duration, transaction: Transaction<'static, Db>) -> Result<(), Unsettled> {
    let error = match bounded(timeout, transaction.commit()).await {
        Some(Ok(())) => return Ok(()),
        Some(Err(error)) => error,
        None => return Err(Reason::Unknown.into()),
    };
    if let Some(fault) = Db::refusal_to_commit(&error) {
        return Err(Unsettled::of(fault, error));
    }
    log(&error);
    Err(Unsettled { reason: Reason::Unknown, source: Some(error) })
}

impl Unsettled {
    /// The error that a statement before COMMIT gave, or a COMMIT that committed nothing.
    fn of(fault: Fault, source: sqlx::Error) -> Self {
        let reason = match fault {
            Fault::Transient => Reason::RunAgain,
            Fault::Aborted => {
                tracing::error!(
                    error = &source as &dyn std::error::Error,
                    "the database refused the handler's transaction: a statement in it failed, or a constraint at its end"
                );
                Reason::Aborted
            }
            Fault::Schema => Reason::Schema,
            Fault::Unavailable => Reason::Unavailable,
        };
        if matches!(reason, Reason::Schema | Reason::Unavailable) {
            log(&source);
        }
        Self { reason, source: Some(source) }
    }
}
