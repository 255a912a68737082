//! A key held by an open transaction: claim, body and record are one transaction.
//! Dropped, the transaction rolls back and the key is free; `settle` ends it otherwise.

use std::time::Duration;

use sqlx::{Transaction, pool::PoolConnection};
use sqlx_core::transaction::TransactionManager as _;

use super::{Engine, Hold, Store, StoreError, bounded, in_flight::InFlightGuard, log};
use crate::{
    backend::{Backend, ClaimOutcome, ClaimRequest, Fault, Purpose, Schema},
    model::options::Isolation,
};

/// How a claim's transaction is opened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TransactionTerms {
    pub(crate) isolation: Option<Isolation>,
    pub(crate) plans: Plans,
}

/// Whether the connection's prepared statements are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Plans {
    /// They are.
    #[default]
    Cached,
    /// They are forgotten first: one of them was stale in the last attempt, and each connection has its own.
    Anew,
}

/// The open transaction and the key it holds.
pub struct Claim<Db: Backend> {
    pub(crate) transaction: Transaction<'static, Db>,
    pub(super) request: ClaimRequest,
    pub(super) token: Db::Token,
    pub(super) guard: InFlightGuard,
    pub(super) timeout: Duration,
    pub(super) schema: Schema,
}

/// An open transaction that holds no key.
pub struct UnkeyedTransaction<Db: Backend> {
    pub(crate) transaction: Transaction<'static, Db>,
    pub(crate) timeout: Duration,
}

impl<Db: Backend> Hold<Db> for Claim<Db> {
    type Terms = TransactionTerms;

    async fn look(
        engine: &Engine<Db>,
        connection: PoolConnection<Db>,
        guard: InFlightGuard,
        request: &ClaimRequest,
        terms: &TransactionTerms,
    ) -> Result<ClaimOutcome<Self>, StoreError> {
        let Store { timeout, schema, .. } = engine.store.clone();
        let looked = bounded(timeout, begin_and_look(connection, schema.clone(), *terms, request.clone())).await;
        let (transaction, outcome) = match looked? {
            Ok(looked) => looked,
            Err(error) if Db::fault(&error) == Fault::Transient => return Ok(ClaimOutcome::LookAgain),
            Err(error) => return Err(StoreError::of::<Db>(error)),
        };
        match outcome.claimed() {
            Ok(token) => {
                guard.runs(request, None);
                let request = request.clone();
                Ok(ClaimOutcome::Claimed(Self { transaction, request, token, guard, timeout, schema }))
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

/// Rolls back a transaction whose last response was its own.
pub(super) async fn roll_back<Db: Backend>(mut transaction: Transaction<'static, Db>) {
    // An error changes nothing for the key: nothing was committed.
    if let Err(error) = Db::TransactionManager::rollback(&mut transaction).await {
        log(&error);
        Db::discard(transaction).await;
    }
}

async fn begin_and_look<Db: Backend>(
    mut connection: PoolConnection<Db>,
    schema: Schema,
    terms: TransactionTerms,
    request: ClaimRequest,
) -> Result<(Transaction<'static, Db>, ClaimOutcome<Db::Token>), sqlx::Error> {
    if terms.plans == Plans::Anew {
        Db::forget_plans(&mut connection).await?;
    }
    let opening = Db::begin(terms.isolation, Purpose::Claim(&request));
    let mut transaction = Transaction::begin(connection, Some(opening)).await?;
    match Db::claim(&mut transaction, &schema, &request).await {
        Ok(outcome) => Ok((transaction, outcome)),
        Err(error) => {
            Db::abandon(transaction).await;
            Err(error)
        }
    }
}
