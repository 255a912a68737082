//! Database effects, from claim to settle: every write goes through the open transaction that also records the key.
//! The response leaves only after COMMIT is acknowledged.

use std::marker::PhantomData;

use sqlx::Transaction;

use super::{
    effects::{ClaimContext, Disposition, Effects, Settled, storable},
    request::RequestContext,
};
use crate::{
    app::{problem::Code, telemetry::ResponseKind},
    backend::{Backend, ClaimRequest},
    engine::{Claim, Refusal, SettleError, SettleErrorKind, TransactionTerms, UnkeyedTransaction, Writes},
    model::options::{OnClientError, OnServerError},
};

/// All effects are writes through the open transaction.
pub struct Database<Db>(PhantomData<fn() -> Db>);

/// What an attempt with database effects holds while its body runs.
pub enum OpenTransaction<Db: Backend> {
    /// The transaction of a protected request, with its key.
    Claimed(Box<Claim<Db>>),
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
        let ClaimContext { request, in_progress, plans, .. } = context;
        let (engine, isolation) = (&request.idempotency.app.engine, request.policy.isolation);
        match claim {
            Some(claim) => engine
                .claim(claim, &TransactionTerms { isolation, plans }, in_progress)
                .await
                .map(|claim| OpenTransaction::Claimed(Box::new(claim))),
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
            OpenTransaction::Claimed(claim) => settle_claim(*claim, disposition, context).await,
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
    let (claim, writes, response) = match disposition {
        Disposition::RunAgain(_) => return Err(run_again(claim.release().await)),
        Disposition::Unavailable(_) => {
            let code = Code::StoreUnavailable;
            return claim.release().await.map(|()| (context.problem(code), ResponseKind::Problem(code)));
        }
        Disposition::Release(response) => {
            return claim.release().await.map(|()| (response, ResponseKind::Released));
        }
        Disposition::Rejected(response) if policy.on_client_error == OnClientError::Release => {
            return claim.release().await.map(|()| (response, ResponseKind::Released));
        }
        Disposition::Rejected(response) => (claim, Writes::Drop, response),
        Disposition::Failed(response) if policy.on_server_error == OnServerError::Release => {
            return claim.release().await.map(|()| (response, ResponseKind::Released));
        }
        Disposition::Failed(response) => {
            let Some(claim) = claim.unless_aborted().await? else {
                warn_not_stored(context);
                return Ok((response, ResponseKind::Released));
            };
            (claim, Writes::Drop, response)
        }
        Disposition::Store(writes, response) => (claim, writes, response),
    };
    match storable(response, &claim.id(), claim.fingerprint(), policy).await {
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
        Disposition::Store(Writes::Drop, response)
        | Disposition::Release(response)
        | Disposition::Rejected(response)
        | Disposition::Failed(response)
        | Disposition::Unavailable(response) => (open.release().await, response),
    };
    settled.map(|()| (response, ResponseKind::Unprotected))
}

/// Whatever hides the cause: nothing of what the handler wrote can have happened, and the next run may fare better.
pub(super) fn warn_not_stored<Db: Backend>(context: &RequestContext<Db>) {
    tracing::warn!(
        operation = context.handler.operation,
        "a 5xx is not stored: the database aborted its transaction. Return an error whose `source` leads to the `sqlx::Error`, \
         so that idem can tell whether to run it again"
    );
}

fn run_again(rolled_back: Result<(), SettleError>) -> SettleError {
    rolled_back.err().unwrap_or(SettleErrorKind::RunAgain.into())
}
