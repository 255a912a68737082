//! The end of a lease: its record completed, deleted, or left to the recovery. Each function takes the lease, so none ends twice.
//! A write that meets another attempt changes nothing. A write that fails leaves the record to the recovery.

use std::{future::Future, time::Duration};

use sqlx::{Transaction, pool::PoolConnection};

use super::Lease;
use crate::{
    backend::{Backend, Fault, Schema, WriteOutcome},
    engine::{
        SettleError, SettleErrorKind, Writes,
        settle::{rewind_and_roll_back, settle, to_commit, unless_aborted},
        store::log,
    },
    model::{record::Record, record_id::RecordId},
};

/// How often a statement that stands alone is sent again if it lost against others (serialization failure, deadlock).
const MAX_TRIES: u32 = 3;

impl<Db: Backend> Lease<Db> {
    /// The identifier of the record.
    pub(crate) fn id(&self) -> RecordId {
        self.holder.id
    }

    /// Writes the record, and commits the transaction with it if there is one and its writes are kept.
    pub(crate) async fn complete(
        mut self,
        transaction: Option<Transaction<'static, Db>>,
        writes: Writes,
        record: Record,
    ) -> Result<(), SettleError> {
        drop(self.renewal.take());
        let (timeout, schema, holder) = (self.store.timeout, self.store.schema.clone(), self.holder);
        let completed = match (transaction, writes) {
            (Some(mut transaction), Writes::Keep) => {
                settle(timeout, async move {
                    let written = Db::complete_within(&mut transaction, &schema, &holder, record).await;
                    if let Ok(WriteOutcome::Lost) = written {
                        log_lost();
                    }
                    to_commit(transaction, written).await
                })
                .await
            }
            (dropped, Writes::Keep | Writes::Drop) => match self.roll_back(dropped).await {
                Ok(()) => self.complete_alone(record).await,
                not_rolled_back => not_rolled_back,
            },
        };
        self.settled(completed).await
    }

    /// Rolls the transaction back and deletes the record in progress; the key is free.
    pub(crate) async fn release(mut self, transaction: Option<Transaction<'static, Db>>) -> Result<(), SettleError> {
        drop(self.renewal.take());
        let holder = self.holder;
        let released = match self.roll_back(transaction).await {
            Ok(()) => {
                self.alone(|mut connection, schema| async move { Db::release(&mut connection, &schema, &holder).await })
                    .await
            }
            not_rolled_back => not_rolled_back,
        };
        self.settled(released).await
    }

    /// The transaction, to complete the record of a 5xx or a panic without it. `Err` if the database has aborted it, or cannot
    /// tell: then the record is to be left to the recovery.
    pub(crate) async fn unless_aborted(
        &self,
        transaction: Option<Transaction<'static, Db>>,
    ) -> Result<Option<Transaction<'static, Db>>, Option<Transaction<'static, Db>>> {
        let Some(transaction) = transaction else { return Ok(None) };
        match unless_aborted(self.store.timeout, transaction).await {
            Ok(Ok(sound)) => Ok(Some(sound)),
            Ok(Err(aborted)) => Err(Some(aborted)),
            Err(_) => Err(None),
        }
    }

    /// Rolls the transaction back and leaves the record in progress. Its lease ends now, so the recovery decides at once.
    pub(crate) async fn leave_pending(
        mut self,
        transaction: Option<Transaction<'static, Db>>,
    ) -> Result<(), SettleError> {
        drop(self.renewal.take());
        let rolled_back = self.roll_back(transaction).await;
        match self.expire().await {
            // Another attempt has decided, or is about to: this attempt's response is not the one of the record.
            Ok(WriteOutcome::Lost | WriteOutcome::TransactionEnded | WriteOutcome::TableHidden) => {
                log_lost();
                Err(SettleErrorKind::Unknown.into())
            }
            _ => rolled_back,
        }
    }

    /// Leaves the record in progress. A reconciler is asked again after a pause.
    pub(crate) async fn postpone(
        self,
        transaction: Option<Transaction<'static, Db>>,
        pause: Duration,
        error: Option<String>,
    ) -> Result<(), SettleError> {
        let rolled_back = self.roll_back(transaction).await;
        self.postpone_record(pause, error, None).await.and(rolled_back)
    }

    /// Leaves the record in progress. A reconciler is asked at once, and its tries count from zero.
    pub(crate) async fn retry_now(self) -> Result<(), SettleError> {
        self.postpone_record(Duration::ZERO, None, Some(0)).await
    }

    async fn postpone_record(
        &self,
        pause: Duration,
        error: Option<String>,
        tries: Option<u32>,
    ) -> Result<(), SettleError> {
        let holder = self.holder;
        self.alone(|mut connection, schema| {
            let error = error.clone();
            async move { Db::postpone(&mut connection, &schema, &holder, pause, error.as_deref(), tries).await }
        })
        .await
    }

    async fn complete_alone(&self, record: Record) -> Result<(), SettleError> {
        let holder = self.holder;
        self.alone(|mut connection, schema| {
            let record = record.clone();
            async move { Db::complete(&mut connection, &schema, &holder, record).await }
        })
        .await
    }

    /// Runs a statement outside any transaction, again if it loses against others. After an error it is unknown whether it took
    /// effect.
    async fn alone<F>(&self, statement: impl Fn(PoolConnection<Db>, Schema) -> F) -> Result<(), SettleError>
    where
        F: Future<Output = Result<WriteOutcome, sqlx::Error>> + Send + 'static,
    {
        let mut tries = 1;
        loop {
            match self.store.step(&statement).await {
                Ok(WriteOutcome::Written) => return Ok(()),
                Ok(WriteOutcome::Lost | WriteOutcome::TransactionEnded | WriteOutcome::TableHidden) => {
                    log_lost();
                    return Err(SettleErrorKind::Unknown.into());
                }
                Err(error) if tries < MAX_TRIES && Db::fault(&error) == Fault::Transient => tries += 1,
                Err(error) => {
                    log(&error);
                    return Err(SettleError { kind: SettleErrorKind::Unknown, source: Some(error) });
                }
            }
        }
    }

    async fn roll_back(&self, transaction: Option<Transaction<'static, Db>>) -> Result<(), SettleError> {
        match transaction {
            Some(transaction) => settle(self.store.timeout, rewind_and_roll_back(transaction)).await,
            None => Ok(()),
        }
    }

    /// Leaves what did not settle to the recovery, which finds out whether anything was saved.
    async fn settled(self, settled: Result<(), SettleError>) -> Result<(), SettleError> {
        let Err(unsettled) = settled else { return Ok(()) };
        let _expired = self.expire().await;
        let kind = match unsettled.kind {
            kind @ (SettleErrorKind::Aborted | SettleErrorKind::TransactionEnded) => kind,
            SettleErrorKind::RunAgain
            | SettleErrorKind::Unavailable
            | SettleErrorKind::Schema
            | SettleErrorKind::TableHidden
            | SettleErrorKind::Unknown => SettleErrorKind::Unknown,
        };
        Err(SettleError { kind, ..unsettled })
    }

    /// Ends the lease, if it is still this one's.
    async fn expire(&self) -> Result<WriteOutcome, sqlx::Error> {
        let holder = self.holder;
        let expired = self.store.step(async move |mut connection, schema| {
            Db::renew(&mut connection, &schema, &holder, Duration::ZERO).await
        });
        expired.await.inspect_err(log)
    }
}

fn log_lost() {
    tracing::warn!("an attempt has lost its lease: another has decided its record, or is about to");
}
