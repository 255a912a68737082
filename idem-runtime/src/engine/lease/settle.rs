//! The end of a lease: its record completed, freed, or left to the recovery. Each takes the lease, so none ends twice.
//! A write that meets another's attempt changes nothing, and one that fails leaves the record to be found out about.

use std::{future::Future, time::Duration};

use sqlx::{Transaction, pool::PoolConnection};

use super::Lease;
use crate::{
    backend::{Backend, Fault, Written},
    engine::{
        Reason, Unsettled, Writes,
        settle::{free, settle, to_commit},
        store::log,
    },
    model::record::Record,
};

/// How often a statement that stands alone is sent again if it lost against others (serialization failure, deadlock).
const MAX_TRIES: u32 = 3;

impl<Db: Backend> Lease<Db> {
    /// Writes the record, and commits the transaction with it if there is one and its writes are kept.
    pub(crate) async fn complete(
        mut self,
        transaction: Option<Transaction<'static, Db>>,
        writes: Writes,
        record: Record,
    ) -> Result<(), Unsettled> {
        drop(self.renewal.take());
        let (timeout, holder) = (self.store.timeout, self.holder);
        let completed = match (transaction, writes) {
            (Some(mut transaction), Writes::Keep) => {
                settle(timeout, async move {
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
            Ok(()) => self.alone(|mut connection| async move { Db::release(&mut connection, &holder).await }).await,
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
            Ok(Written::Lost | Written::Ended) => {
                log_lost();
                Err(Reason::Unknown.into())
            }
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
        let undone = self.undone(transaction).await;
        self.postponed(pause, error, None).await.and(undone)
    }

    /// Leaves the record in progress, to be asked about at once and as if for the first time.
    pub(crate) async fn ask_again(self) -> Result<(), Unsettled> {
        self.postponed(Duration::ZERO, None, Some(0)).await
    }

    async fn postponed(&self, pause: Duration, error: Option<String>, asked: Option<u32>) -> Result<(), Unsettled> {
        let holder = self.holder;
        self.alone(|mut connection| {
            let error = error.clone();
            async move { Db::postpone(&mut connection, &holder, pause, error.as_deref(), asked).await }
        })
        .await
    }

    async fn complete_alone(&self, record: Record) -> Result<(), Unsettled> {
        let holder = self.holder;
        self.alone(|mut connection| {
            let record = record.clone();
            async move { Db::complete(&mut connection, &holder, record).await }
        })
        .await
    }

    /// Sends a statement that stands alone, again if it loses against others. Where it fails nobody knows whether it did.
    async fn alone<F>(&self, statement: impl Fn(PoolConnection<Db>) -> F) -> Result<(), Unsettled>
    where
        F: Future<Output = Result<Written, sqlx::Error>> + Send + 'static,
    {
        let mut tries = 1;
        loop {
            match self.store.step(&statement).await {
                Ok(Written::Yes) => return Ok(()),
                Ok(Written::Lost | Written::Ended) => {
                    log_lost();
                    return Err(Reason::Unknown.into());
                }
                Err(error) if tries < MAX_TRIES && Db::fault(&error) == Fault::Transient => tries += 1,
                Err(error) => {
                    log(&error);
                    return Err(Unsettled { reason: Reason::Unknown, source: Some(error) });
                }
            }
        }
    }

    async fn undone(&self, transaction: Option<Transaction<'static, Db>>) -> Result<(), Unsettled> {
        match transaction {
            Some(transaction) => settle(self.store.timeout, free(transaction)).await,
            None => Ok(()),
        }
    }

    /// What did not end as asked is left to the recovery; whether anything was saved, it finds out.
    async fn ended(self, settled: Result<(), Unsettled>) -> Result<(), Unsettled> {
        let Err(unsettled) = settled else { return Ok(()) };
        let _lapsed = self.lapse().await;
        let reason = match unsettled.reason {
            reason @ (Reason::Aborted | Reason::TransactionEnded) => reason,
            Reason::RunAgain | Reason::Unavailable | Reason::Schema | Reason::Unknown => Reason::Unknown,
        };
        Err(Unsettled { reason, ..unsettled })
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
