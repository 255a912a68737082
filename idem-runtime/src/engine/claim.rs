//! A key held by an open transaction: claim, body and record are one transaction.
//! Dropped, the transaction rolls back and the key is free; `settle` ends it otherwise.

use std::time::Duration;

use sqlx::{Transaction, pool::PoolConnection};

use super::{Engine, Hold, StoreError, bounded, in_flight::InFlightGuard, log};
use crate::{
    backend::{Backend, ClaimOutcome, ClaimRequest, Fault, Purpose},
    model::options::Isolation,
};

/// The open transaction and the key it holds.
pub struct Claim<Db: Backend> {
    pub(crate) transaction: Transaction<'static, Db>,
    pub(super) request: ClaimRequest,
    pub(super) token: Db::Token,
    pub(super) guard: InFlightGuard,
    pub(super) timeout: Duration,
}

/// An open transaction that holds no key.
pub struct UnkeyedTransaction<Db: Backend> {
    pub(crate) transaction: Transaction<'static, Db>,
    pub(crate) timeout: Duration,
}

impl<Db: Backend> Hold<Db> for Claim<Db> {
    type Terms = Option<Isolation>;

    async fn look(
        engine: &Engine<Db>,
        connection: PoolConnection<Db>,
        guard: InFlightGuard,
        request: &ClaimRequest,
        isolation: &Option<Isolation>,
    ) -> Result<ClaimOutcome<Self>, StoreError> {
        let timeout = engine.store.timeout;
        let looked = bounded(timeout, begin_and_look(connection, *isolation, request.clone())).await;
        let (transaction, outcome) = match looked? {
            Ok(looked) => looked,
            Err(error) if Db::fault(&error) == Fault::Transient => return Ok(ClaimOutcome::LookAgain),
            Err(error) => return Err(StoreError::of::<Db>(error)),
        };
        match outcome.claimed() {
            Ok(token) => {
                guard.runs(request, None);
                Ok(ClaimOutcome::Claimed(Self { transaction, request: request.clone(), token, guard, timeout }))
            }
            Err(ClaimOutcome::ReadOnly) => {
                // The connection is closed: the next one may be to a server that accepts writes.
                let _done = bounded(timeout, Db::discard(transaction)).await;
                Ok(ClaimOutcome::ReadOnly)
            }
            Err(other) => {
                let _done = bounded(timeout, roll_back(transaction)).await;
                Ok(other)
            }
        }
    }
}

pub(super) async fn roll_back<Db: Backend>(transaction: Transaction<'static, Db>) {
    // An error changes nothing for the key: nothing was committed.
    if let Err(error) = transaction.rollback().await {
        log(&error);
    }
}

async fn begin_and_look<Db: Backend>(
    connection: PoolConnection<Db>,
    isolation: Option<Isolation>,
    request: ClaimRequest,
) -> Result<(Transaction<'static, Db>, ClaimOutcome<Db::Token>), sqlx::Error> {
    let opening = Db::begin(isolation, Purpose::Claim(&request));
    let mut transaction = Transaction::begin(connection, Some(opening)).await?;
    match Db::claim(&mut transaction, &request).await {
        Ok(outcome) => Ok((transaction, outcome)),
        Err(error) => {
            roll_back(transaction).await;
            Err(error)
        }
    }
}
