//! External effects, from claim to settle: some of them are in another system, so a lease holds the key.
//! A record that does not settle stays in progress, and the recovery decides it. No attempt runs again.

use std::marker::PhantomData;

use axum::response::Response;
use sqlx::Transaction;

use super::{
    database::{settle_unkeyed, warn_not_stored},
    effects::{ClaimContext, Disposition, Effects, Settled, storable},
    request::RequestContext,
    response::Settle,
};
use crate::{
    app::{problem::Code, telemetry::ResponseKind},
    backend::{AttemptId, Backend, ClaimRequest},
    engine::{
        Lease, LeaseTerms, Refusal, SettleError, SettleErrorKind, StoreError, UnkeyedTransaction, Writes,
        attempt::Attempt,
    },
    model::{options::OnServerError, record_id::RecordId},
};

/// Some effects are in other systems.
pub struct External<Db>(PhantomData<fn() -> Db>);

impl<Db: Backend> Effects for External<Db> {
    type Db = Db;
    type Param = Attempt<Db>;
    type Held = Attempt<Db>;

    async fn claim(context: ClaimContext<'_, Db>, claim: Option<&ClaimRequest>) -> Result<Attempt<Db>, Refusal> {
        let ClaimContext { request, in_progress, stored_request, .. } = context;
        let (engine, policy) = (&request.idempotency.app.engine, &request.policy);
        let attempt = AttemptId::random().map_err(|error| {
            tracing::error!(error = &error as &dyn std::error::Error, "the operating system returned no random bytes");
            Refusal::Store(StoreError::unavailable())
        })?;
        let (id, lease) = match claim {
            Some(claim) => {
                let terms = LeaseTerms { attempt, length: policy.lease.length(), stored_request };
                (claim.id, Some(engine.claim::<Lease<Db>>(claim, &terms, in_progress).await?))
            }
            // A retry cannot be distinguished from another request, so each request has its own step keys.
            None => (RecordId::of_attempt_without_key(attempt.as_bytes()), None),
        };
        Ok(Attempt::new(engine.store.clone(), id, request.handler.operation.into(), policy.isolation, lease))
    }

    fn param(held: &mut Attempt<Db>) -> &mut Attempt<Db> {
        held
    }

    async fn settle(held: Attempt<Db>, disposition: Disposition, context: &RequestContext<Db>) -> Settled {
        let timeout = context.idempotency.app.engine.store.timeout;
        match held.into_parts() {
            (Some(lease), transaction) => settle_lease(lease, transaction, disposition, context).await,
            (None, Some(transaction)) => {
                let disposition = match disposition {
                    Disposition::RunAgain(response) => Disposition::Failed(response),
                    other => other,
                };
                let settled = settle_unkeyed(UnkeyedTransaction { transaction, timeout }, disposition).await;
                // Another run would have other step keys.
                settled.map_err(|unsettled| match unsettled.kind {
                    SettleErrorKind::RunAgain => SettleError { kind: SettleErrorKind::Unknown, ..unsettled },
                    _ => unsettled,
                })
            }
            (None, None) => Ok((response_of(disposition), ResponseKind::Unprotected)),
        }
    }

    /// The database saved nothing, but the other system may have acted.
    fn code(code: Code) -> Code {
        if code == Code::StoreUnavailable { Code::OutcomeUnknown } else { code }
    }
}

async fn settle_lease<Db: Backend>(
    lease: Lease<Db>,
    transaction: Option<Transaction<'static, Db>>,
    disposition: Disposition,
    context: &RequestContext<Db>,
) -> Settled {
    let policy = context.policy;
    let disposition = match disposition {
        // The handler's own wish is a failure like others: whether its effect happened, only the handler knows.
        Disposition::RunAgain(response) if response.extensions().get() == Some(&Settle::RunAgain) => {
            Disposition::Failed(response)
        }
        other => other,
    };
    let (transaction, writes, response) = match disposition {
        Disposition::Release(response) => {
            return lease.release(transaction).await.map(|()| (response, ResponseKind::Released));
        }
        Disposition::Failed(response) if policy.on_server_error == OnServerError::Reconcile => {
            return lease.leave_pending(transaction).await.map(|()| (response, ResponseKind::Pending));
        }
        // Time heals the fault here, but says nothing about the other system.
        Disposition::RunAgain(_) | Disposition::Unavailable(_) => {
            let code = Code::OutcomeUnknown;
            return lease
                .leave_pending(transaction)
                .await
                .map(|()| (context.problem(code), ResponseKind::Problem(code)));
        }
        Disposition::Failed(response) => match lease.unless_aborted(transaction).await {
            Ok(sound) => (sound, Writes::Drop, response),
            Err(aborted) => {
                warn_not_stored(context);
                return lease.leave_pending(aborted).await.map(|()| (response, ResponseKind::Pending));
            }
        },
        // Whatever `on_client_error` says: a 4xx after a call says nothing of the call.
        Disposition::Rejected(response) => (transaction, Writes::Drop, response),
        Disposition::Store(writes, response) => (transaction, writes, response),
    };
    // The claim has already written the fingerprint.
    let code = match storable(response, &lease.id(), Vec::new(), policy).await {
        Ok((record, buffered)) => {
            let completed = lease.complete(transaction, writes, record).await;
            return completed.map(|()| (buffered.into_response(), ResponseKind::Stored));
        }
        Err(code) => code,
    };
    // The effect in the other system remains: store the problem, so that retries get it too.
    if policy.on_server_error != OnServerError::Reconcile
        && let Ok((record, buffered)) = storable(context.problem(code), &lease.id(), Vec::new(), policy).await
    {
        let completed = lease.complete(transaction, Writes::Drop, record).await;
        return completed.map(|()| (buffered.into_response(), ResponseKind::Problem(code)));
    }
    lease.leave_pending(transaction).await.map(|()| (context.problem(code), ResponseKind::Problem(code)))
}

fn response_of(disposition: Disposition) -> Response {
    match disposition {
        Disposition::RunAgain(response)
        | Disposition::Unavailable(response)
        | Disposition::Release(response)
        | Disposition::Rejected(response)
        | Disposition::Failed(response)
        | Disposition::Store(_, response) => response,
    }
}
