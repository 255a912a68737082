//! Database effects, from claim to settle: every write goes through the open transaction that also records the key.
//! The response leaves only after COMMIT is acknowledged.

use std::marker::PhantomData;

use sqlx::Transaction;

use super::{
    effects::{ClaimContext, Disposition, Effects, Settled, storable},
    request::RequestContext,
};
use crate::{
    app::telemetry::ResponseKind,
    backend::{Backend, ClaimRequest},
    engine::{Claim, Refusal, SettleError, SettleErrorKind, UnkeyedTransaction, Writes},
    model::options::OnServerError,
};

/// All effects are writes through the open transaction.
pub struct Database<Db>(PhantomData<fn() -> Db>);

/// What an attempt with database effects holds while its body runs.
pub enum OpenTransaction<Db: Backend> {
    /// The transaction of a protected request, with its key.
    Claimed(Claim<Db>),
    /// The transaction of an unprotected request.
    Unkeyed(UnkeyedTransaction<Db>),
}

impl<Db: Backend> Effects for Database<Db> {
    type Db = Db;
    type Param = Transaction<'static, Db>;
    type Held = OpenTransaction<Db>;

    async fn claim(
        context: ClaimContext<'_, Db>,
        claim: Option<&ClaimRequest>,
    ) -> Result<OpenTransaction<Db>, Refusal> {
        let ClaimContext { request, in_progress, .. } = context;
        let (engine, isolation) = (&request.idempotency.app.engine, request.policy.isolation);
        match claim {
            Some(claim) => engine.claim(claim, &isolation, in_progress).await.map(OpenTransaction::Claimed),
            None => engine.open(isolation).await.map(OpenTransaction::Unkeyed),
        }
    }

    fn param(held: &mut OpenTransaction<Db>) -> &mut Transaction<'static, Db> {
        match held {
            OpenTransaction::Claimed(claim) => &mut claim.transaction,
            OpenTransaction::Unkeyed(open) => &mut open.transaction,
        }
    }

    async fn settle(held: OpenTransaction<Db>, disposition: Disposition, context: &RequestContext<Db>) -> Settled {
        match held {
            OpenTransaction::Claimed(claim) => settle_claim(claim, disposition, context).await,
            OpenTransaction::Unkeyed(open) => settle_unkeyed(open, disposition).await,
        }
    }
}

async fn settle_claim<Db: Backend>(
    claim: Claim<Db>,
    disposition: Disposition,
    context: &RequestContext<Db>,
) -> Settled {
    let policy = context.policy;
    let (writes, response) = match disposition {
        Disposition::RunAgain(_) => return Err(run_again(claim.release().await)),
        Disposition::Release(response) => {
            return claim.release().await.map(|()| (response, ResponseKind::Released));
        }
        Disposition::Failed(response) if policy.on_server_error == OnServerError::Release => {
            return claim.release().await.map(|()| (response, ResponseKind::Released));
        }
        Disposition::Failed(response) => (Writes::Drop, response),
        Disposition::Store(writes, response) => (writes, response),
    };
    match storable(response, claim.fingerprint(), policy).await {
        Ok((record, buffered)) => {
            claim.record(writes, record).await.map(|()| (buffered.into_response(), ResponseKind::Stored))
        }
        Err(code) => claim.release().await.map(|()| (context.problem(code), ResponseKind::Problem(code))),
    }
}

/// Settles a transaction that holds no key.
pub(super) async fn settle_unkeyed<Db: Backend>(open: UnkeyedTransaction<Db>, disposition: Disposition) -> Settled {
    let (settled, response) = match disposition {
        Disposition::RunAgain(_) => return Err(run_again(open.release().await)),
        Disposition::Store(Writes::Keep, response) => (open.commit().await, response),
        Disposition::Store(Writes::Drop, response) | Disposition::Release(response) | Disposition::Failed(response) => {
            (open.release().await, response)
        }
    };
    settled.map(|()| (response, ResponseKind::Unprotected))
}

fn run_again(rolled_back: Result<(), SettleError>) -> SettleError {
    rolled_back.err().unwrap_or(SettleErrorKind::RunAgain.into())
}
