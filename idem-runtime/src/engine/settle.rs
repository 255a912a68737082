//! The end of a claim, or of a transaction without a key: recorded, committed, released, or the error.
//! Each function takes what it ends, so nothing ends twice.

use std::{future::Future, time::Duration};

use sqlx::Transaction;
use sqlx_core::transaction::TransactionManager;

use super::{Claim, UnkeyedTransaction, bounded, claim::roll_back, log};
use crate::{
    backend::{Backend, Fault, WriteOutcome},
    model::{record::Record, record_id::RecordId},
};

/// What happens to the handler's writes when its response is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// They commit with the record.
    Keep,
    /// They are rolled back; the record alone commits.
    Drop,
}

/// A transaction or a lease that did not settle as intended.
#[derive(Debug)]
pub struct SettleError {
    pub(crate) kind: SettleErrorKind,
    /// The error of the database or of the pool, if there was one.
    pub(crate) source: Option<sqlx::Error>,
}

/// What a [`SettleError`] means for the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettleErrorKind {
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
    /// Rolled back: the handler's role or `search_path` hides the table.
    TableHidden,
    /// The response to COMMIT was lost.
    Unknown,
}

impl From<SettleErrorKind> for SettleError {
    fn from(kind: SettleErrorKind) -> Self {
        Self { kind, source: None }
    }
}

impl<Db: Backend> Claim<Db> {
    /// The identifier of the record.
    pub(crate) fn id(&self) -> RecordId {
        self.request.id
    }

    /// The fingerprint of the record.
    pub(crate) fn fingerprint(&self) -> Vec<u8> {
        self.request.fingerprint.to_bytes()
    }

    /// Commits the record, and the handler's writes if they are kept.
    pub(crate) async fn record(self, writes: Writes, record: Record) -> Result<(), SettleError> {
        let Self { transaction, request, token, guard, timeout, schema } = self;
        let settled = settle(timeout, async move {
            let mut transaction = transaction;
            let undone = match writes {
                Writes::Keep => Ok(WriteOutcome::Written),
                Writes::Drop => Db::rewind(&mut transaction).await,
            };
            let written = match undone {
                Ok(WriteOutcome::Written) => Db::record(&mut transaction, &schema, &token, &request, record).await,
                not_undone => not_undone,
            };
            to_commit(transaction, written).await
        })
        .await;
        // The key stays in flight until the database has responded, or the timeout is over.
        drop(guard);
        settled
    }

    /// The claim, to record a 5xx or a panic; `None` if the database has aborted the transaction. Then nothing of the body has
    /// happened and nobody knows why, so the key is released.
    pub(crate) async fn unless_aborted(self) -> Result<Option<Self>, SettleError> {
        let Self { transaction, request, token, guard, timeout, schema } = self;
        match unless_aborted(timeout, transaction).await? {
            Ok(transaction) => Ok(Some(Self { transaction, request, token, guard, timeout, schema })),
            Err(aborted) => {
                let settled = settle(timeout, rewind_and_roll_back(aborted)).await;
                drop(guard);
                settled.map(|()| None)
            }
        }
    }

    /// Rolls everything back; the key is free.
    pub(crate) async fn release(self) -> Result<(), SettleError> {
        let settled = settle(self.timeout, rewind_and_roll_back(self.transaction)).await;
        drop(self.guard);
        settled
    }
}

impl<Db: Backend> UnkeyedTransaction<Db> {
    /// Commits the handler's writes.
    pub(crate) async fn commit(self) -> Result<(), SettleError> {
        let mut transaction = self.transaction;
        settle(self.timeout, async move {
            let sound = Db::verify(&mut transaction).await;
            to_commit(transaction, sound).await
        })
        .await
    }

    /// Rolls everything back.
    pub(crate) async fn release(self) -> Result<(), SettleError> {
        settle(self.timeout, rewind_and_roll_back(self.transaction)).await
    }
}

/// A transaction just before COMMIT, or after its end.
pub(super) enum Prepared<Db: Backend> {
    /// All is written; only COMMIT is left.
    Commit(Transaction<'static, Db>),
    /// It has ended already.
    Ended(Result<(), SettleError>),
}

/// Runs the last steps of a transaction. COMMIT is a separate step: if its response is lost, the outcome is unknown.
pub(super) async fn settle<Db: Backend>(
    timeout: Duration,
    preparing: impl Future<Output = Prepared<Db>> + Send + 'static,
) -> Result<(), SettleError> {
    match bounded(timeout, preparing).await {
        Ok(Prepared::Commit(transaction)) => commit(timeout, transaction).await,
        Ok(Prepared::Ended(settled)) => settled,
        Err(overdue) => Err(SettleError { kind: SettleErrorKind::Unavailable, source: Some(overdue.into()) }),
    }
}

/// Goes on to COMMIT if all is written, in the transaction that was opened. Otherwise ends the transaction.
pub(super) async fn to_commit<Db: Backend>(
    transaction: Transaction<'static, Db>,
    written: Result<WriteOutcome, sqlx::Error>,
) -> Prepared<Db> {
    match written {
        Ok(WriteOutcome::Written) if is_outermost(&transaction) => Prepared::Commit(transaction),
        not_written => Prepared::Ended(Err(give_up(transaction, not_written).await)),
    }
}

/// Undoes the handler's writes, which proves that the transaction is the one that was opened, and rolls back.
pub(super) async fn rewind_and_roll_back<Db: Backend>(mut transaction: Transaction<'static, Db>) -> Prepared<Db> {
    Prepared::Ended(match Db::rewind(&mut transaction).await {
        Ok(WriteOutcome::Written) if is_outermost(&transaction) => {
            roll_back(transaction).await;
            Ok(())
        }
        // The writes cannot be undone, or there is no proof of it.
        not_undone => Err(give_up(transaction, not_undone).await),
    })
}

/// Ends a transaction that does not commit, and returns the reason.
async fn give_up<Db: Backend>(
    transaction: Transaction<'static, Db>,
    written: Result<WriteOutcome, sqlx::Error>,
) -> SettleError {
    let unsettled = match written {
        Ok(WriteOutcome::Lost) => SettleErrorKind::RunAgain.into(),
        Ok(WriteOutcome::TableHidden) => SettleErrorKind::TableHidden.into(),
        Ok(WriteOutcome::Written | WriteOutcome::TransactionEnded) => SettleErrorKind::TransactionEnded.into(),
        Err(error) => SettleError::of(Db::fault(&error), error),
    };
    if unsettled.kind == SettleErrorKind::TransactionEnded || !is_outermost(&transaction) {
        Db::discard(transaction).await;
    } else {
        // Not left to the drop, which rolls back some time later: the next look would meet this claim's own locks.
        Db::abandon(transaction).await;
    }
    unsettled
}

/// The transaction; as the inner error if the database has aborted it.
pub(super) async fn unless_aborted<Db: Backend>(
    timeout: Duration,
    mut transaction: Transaction<'static, Db>,
) -> Result<Result<Transaction<'static, Db>, Transaction<'static, Db>>, SettleError> {
    let asking = async move {
        match Db::is_aborted(&mut transaction).await {
            Ok(aborted) => Ok((aborted, transaction)),
            Err(error) => Err(give_up(transaction, Err(error)).await),
        }
    };
    match bounded(timeout, asking).await {
        Ok(asked) => asked.map(|(aborted, transaction)| if aborted { Err(transaction) } else { Ok(transaction) }),
        Err(overdue) => Err(SettleError { kind: SettleErrorKind::Unavailable, source: Some(overdue.into()) }),
    }
}

/// Whether sqlx counts this transaction and none inside it. Its COMMIT and ROLLBACK go by that count: with a nested
/// transaction that a handler leaked they would end that one, and report success. Called after a statement, because
/// SQLite's worker decrements the count for a dropped transaction only when it reaches it.
fn is_outermost<Db: Backend>(transaction: &Transaction<'static, Db>) -> bool {
    Db::TransactionManager::get_transaction_depth(transaction) == 1
}

async fn commit<Db: Backend>(timeout: Duration, transaction: Transaction<'static, Db>) -> Result<(), SettleError> {
    let mut transaction = transaction;
    let committing = async move {
        let committed = Db::TransactionManager::commit(&mut transaction).await;
        (committed, transaction)
    };
    let (error, transaction) = match bounded(timeout, committing).await {
        // Dropped at depth 0, the transaction does nothing more.
        Ok((Ok(()), _)) => return Ok(()),
        Ok((Err(error), transaction)) => (error, transaction),
        Err(overdue) => return Err(SettleError { kind: SettleErrorKind::Unknown, source: Some(overdue.into()) }),
    };
    let _done = bounded(timeout, Db::abandon(transaction)).await;
    if let Some(fault) = Db::refusal_to_commit(&error) {
        return Err(SettleError::of(fault, error));
    }
    log(&error);
    Err(SettleError { kind: SettleErrorKind::Unknown, source: Some(error) })
}

impl SettleError {
    /// The error of a statement before COMMIT, or of a COMMIT that committed nothing.
    fn of(fault: Fault, source: sqlx::Error) -> Self {
        let kind = match fault {
            Fault::Transient => SettleErrorKind::RunAgain,
            Fault::Aborted => {
                tracing::error!(
                    error = &source as &dyn std::error::Error,
                    "the database refused the handler's transaction: a statement in it failed, or a constraint at its end"
                );
                SettleErrorKind::Aborted
            }
            Fault::Schema => SettleErrorKind::Schema,
            Fault::Unavailable => SettleErrorKind::Unavailable,
        };
        if matches!(kind, SettleErrorKind::Schema | SettleErrorKind::Unavailable) {
            log(&source);
        }
        Self { kind, source: Some(source) }
    }
}
