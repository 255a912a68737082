//! The end of a claim, or of a transaction without a key: recorded, kept, freed, or why not.
//! Each takes what it ends, so nothing is ended twice.

use std::{future::Future, time::Duration};

use sqlx::Transaction;
use sqlx_core::transaction::TransactionManager;

use super::{Claim, Open, bounded, log, roll_back};
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

/// Why a transaction did not end as asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsettled {
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

impl<Db: Backend> Claim<Db> {
    /// The fingerprint that the record is to have.
    pub(crate) fn fingerprint(&self) -> Vec<u8> {
        self.wanted.fingerprint.to_bytes()
    }

    /// Commits the record, and the handler's writes if they are kept.
    pub(crate) async fn record(self, writes: Writes, record: Record) -> Result<(), Unsettled> {
        let Self { transaction, wanted, token, presence, patience } = self;
        let settled = settle(patience, async move {
            let mut transaction = transaction;
            let undone = match writes {
                Writes::Keep => Ok(Written::Yes),
                Writes::Drop => Db::rewind(&mut transaction).await,
            };
            let written = match undone {
                Ok(Written::Yes) => Db::record(&mut transaction, &token, &wanted, record).await,
                not_undone => not_undone,
            };
            to_commit(transaction, written).await
        })
        .await;
        // The key is in hand until the database has answered, or has not for too long.
        drop(presence);
        settled
    }

    /// Rolls everything back; the key is free.
    pub(crate) async fn free(self) -> Result<(), Unsettled> {
        let settled = settle(self.patience, free(self.transaction)).await;
        drop(self.presence);
        settled
    }
}

impl<Db: Backend> Open<Db> {
    /// Commits the handler's writes.
    pub(crate) async fn keep(self) -> Result<(), Unsettled> {
        let mut transaction = self.transaction;
        settle(self.patience, async move {
            let sound = Db::verify(&mut transaction).await;
            to_commit(transaction, sound).await
        })
        .await
    }

    /// Rolls everything back.
    pub(crate) async fn free(self) -> Result<(), Unsettled> {
        settle(self.patience, free(self.transaction)).await
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
    patience: Duration,
    preparing: impl Future<Output = Prepared<Db>> + Send + 'static,
) -> Result<(), Unsettled> {
    match bounded(patience, preparing).await {
        Some(Prepared::Commit(transaction)) => commit(patience, transaction).await,
        Some(Prepared::Over(settled)) => settled,
        None => Err(Unsettled::Unavailable),
    }
}

/// Goes on to COMMIT if all is written and still in the transaction that was opened; gives up everything else.
pub(super) async fn to_commit<Db: Backend>(
    transaction: Transaction<'static, Db>,
    written: Result<Written, sqlx::Error>,
) -> Prepared<Db> {
    match written {
        Ok(Written::Yes) if is_outermost(&transaction) => Prepared::Commit(transaction),
        not_written => Prepared::Over(Err(given_up(transaction, not_written).await)),
    }
}

pub(super) async fn free<Db: Backend>(mut transaction: Transaction<'static, Db>) -> Prepared<Db> {
    Prepared::Over(match Db::rewind(&mut transaction).await {
        Ok(Written::Yes) if is_outermost(&transaction) => {
            roll_back(transaction).await;
            Ok(())
        }
        // It cannot be undone, or not be proved to be.
        not_undone => Err(given_up(transaction, not_undone).await),
    })
}

/// Ends a transaction that does not commit, and says why it does not.
async fn given_up<Db: Backend>(
    transaction: Transaction<'static, Db>,
    written: Result<Written, sqlx::Error>,
) -> Unsettled {
    let unsettled = match written {
        Ok(Written::Lost) => Unsettled::Again,
        Ok(Written::Yes | Written::Ended) => Unsettled::Ended,
        Err(error) => unsettled_by(Db::fault(&error), &error),
    };
    if unsettled == Unsettled::Ended || !is_outermost(&transaction) {
        Db::discard(transaction).await;
    } else {
        // Not left to the drop, which rolls back some time later: the next look would meet this claim's own locks.
        roll_back(transaction).await;
    }
    unsettled
}

/// Whether sqlx counts this transaction and none inside it. Its COMMIT and ROLLBACK go by that count: with a nested
/// transaction that a handler leaked they would end that one, and report success. Asked after a statement, because SQLite's
/// worker counts a dropped one down only when it comes to it.
fn is_outermost<Db: Backend>(transaction: &Transaction<'static, Db>) -> bool {
    Db::TransactionManager::get_transaction_depth(transaction) == 1
}

async fn commit<Db: Backend>(patience: Duration, transaction: Transaction<'static, Db>) -> Result<(), Unsettled> {
    let error = match bounded(patience, transaction.commit()).await {
        Some(Ok(())) => return Ok(()),
        Some(Err(error)) => error,
        None => return Err(Unsettled::Unknown),
    };
    if let Some(fault) = Db::refusal_to_commit(&error) {
        return Err(unsettled_by(fault, &error));
    }
    log(&error);
    Err(Unsettled::Unknown)
}

fn unsettled_by(fault: Fault, error: &sqlx::Error) -> Unsettled {
    let unsettled = match fault {
        Fault::Transient => return Unsettled::Again,
        Fault::Aborted => {
            tracing::error!(
                error = error as &dyn std::error::Error,
                "the database refused the handler's transaction: a statement in it failed, or a constraint at its end"
            );
            return Unsettled::Aborted;
        }
        Fault::Schema => Unsettled::Schema,
        Fault::Unavailable => Unsettled::Unavailable,
    };
    log(error);
    unsettled
}
