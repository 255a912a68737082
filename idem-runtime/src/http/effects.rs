//! Where a handler's effects are, as a type: all in our transaction, or some of them elsewhere. What differs between the two
//! is here: how the key is claimed, what the handler is lent, and what an outcome means for what is held.

use std::{future::Future, marker::PhantomData};

use axum::response::Response;
use sqlx::Transaction;

use crate::{
    app::{Idempotency, problem::Code, telemetry::Answer},
    backend::{AttemptId, Backend, Wanted},
    engine::{self, Lease, Leasing, Open, Refusal, Unsettled, Writes, attempt::Attempt},
    http::response::{Settle, Whole},
    model::{
        handler_options::{Handler, Policy},
        options::{InProgress, OnServerError},
        record::Record,
        record_id::RecordId,
    },
};

/// Where a handler's effects are: [`Database`] or [`External`].
pub trait Effects: Sized + Send + 'static {
    /// The database with the records.
    type Db: Backend;
    /// What the handler's `&mut` parameter lends.
    type Lent;
    /// What is held while the body runs.
    type Held: Send + 'static;

    /// Claims the key, if there is one.
    #[doc(hidden)]
    fn claim(
        asked: Asked<'_, Self::Db>,
        wanted: Option<&Wanted>,
    ) -> impl Future<Output = Result<Self::Held, Refusal>> + Send;

    /// Lends it.
    #[doc(hidden)]
    fn lend(held: &mut Self::Held) -> &mut Self::Lent;

    /// Ends what is held.
    #[doc(hidden)]
    fn end(
        held: Self::Held,
        wish: Wish,
        idempotency: &Idempotency<Self::Db>,
        policy: Policy,
    ) -> impl Future<Output = Ended> + Send;

    /// What an attempt that did not end as asked is answered with.
    #[doc(hidden)]
    #[must_use]
    fn answer(code: Code) -> Code {
        code
    }
}

/// What an outcome asks for.
pub enum Wish {
    /// Roll back and run again; the response is what would be sent otherwise.
    Again(Response),
    /// Roll everything back, free the key, and send this.
    Free(Response),
    /// Send this, a failure of which nothing more is said: `on_server_error` decides.
    Failed(Response),
    /// Store this, with or without the handler's writes.
    Store(Writes, Response),
}

/// What to send, or why what was held did not end as asked.
pub(crate) type Ended = Result<(Response, Answer), Unsettled>;

impl Wish {
    /// The same, where nothing can be run again: what asked for it has failed.
    pub(crate) fn not_again(self) -> Self {
        match self {
            Self::Again(response) => Self::Failed(response),
            other => other,
        }
    }

    pub(crate) fn response(self) -> Response {
        match self {
            Self::Again(response) | Self::Free(response) | Self::Failed(response) | Self::Store(_, response) => {
                response
            }
        }
    }
}

/// What is to become of the writes beside a response that is stored, by its mark or else by its status.
pub(crate) fn writes(response: &Response) -> Writes {
    match response.extensions().get() {
        Some(Settle::KeepWrites) => Writes::Keep,
        Some(Settle::DropWrites) => Writes::Drop,
        _ if response.status().is_client_error() || response.status().is_server_error() => Writes::Drop,
        _ => Writes::Keep,
    }
}

/// What a claim depends on besides the key.
pub struct Asked<'a, Db: Backend> {
    pub(crate) idempotency: &'a Idempotency<Db>,
    pub(crate) handler: &'static Handler,
    pub(crate) policy: Policy,
    pub(crate) in_progress: InProgress,
    /// The request, encoded, where the handler stores it.
    pub(crate) request: Option<Vec<u8>>,
}

/// All effects are writes through the open transaction that also records the key.
pub struct Database<Db>(PhantomData<fn() -> Db>);

/// Some effects are in other systems; the key is held by a lease.
pub struct External<Db>(PhantomData<fn() -> Db>);

/// What an attempt with database effects holds: a transaction, with or without a key.
pub enum Held<Db: Backend> {
    /// The key of a protected request.
    Key(engine::Claim<Db>),
    /// No key.
    Nothing(Open<Db>),
}

impl<Db: Backend> Effects for Database<Db> {
    type Db = Db;
    type Lent = Transaction<'static, Db>;
    type Held = Held<Db>;

    async fn claim(asked: Asked<'_, Db>, wanted: Option<&Wanted>) -> Result<Held<Db>, Refusal> {
        let (engine, isolation) = (&asked.idempotency.app.engine, asked.policy.isolation);
        match wanted {
            Some(wanted) => engine.claim(wanted, &isolation, asked.in_progress).await.map(Held::Key),
            None => engine.open(isolation).await.map(Held::Nothing),
        }
    }

    fn lend(held: &mut Held<Db>) -> &mut Transaction<'static, Db> {
        match held {
            Held::Key(claim) => &mut claim.transaction,
            Held::Nothing(open) => &mut open.transaction,
        }
    }

    async fn end(held: Held<Db>, wish: Wish, idempotency: &Idempotency<Db>, policy: Policy) -> Ended {
        match held {
            Held::Key(claim) => end_claim(claim, wish, idempotency, policy).await,
            Held::Nothing(open) => end_open(open, wish).await,
        }
    }
}

impl<Db: Backend> Effects for External<Db> {
    type Db = Db;
    type Lent = Attempt<Db>;
    type Held = Attempt<Db>;

    async fn claim(asked: Asked<'_, Db>, wanted: Option<&Wanted>) -> Result<Attempt<Db>, Refusal> {
        let attempt = AttemptId::random().map_err(|error| {
            tracing::error!(error = &error as &dyn std::error::Error, "the system gives no random bytes");
            Refusal::Unavailable
        })?;
        let engine = &asked.idempotency.app.engine;
        let (id, lease) = match wanted {
            Some(wanted) => {
                let terms = Leasing { attempt, length: asked.policy.lease.length(), request: asked.request };
                (wanted.id, Some(engine.claim::<Lease<Db>>(wanted, &terms, asked.in_progress).await?))
            }
            // No retry can be told from another request, so each has steps of its own.
            None => (RecordId::of_attempt_without_key(attempt.as_bytes()), None),
        };
        Ok(Attempt::new(engine.store.clone(), id, asked.handler.operation.into(), asked.policy.isolation, lease))
    }

    fn lend(held: &mut Attempt<Db>) -> &mut Attempt<Db> {
        held
    }

    async fn end(held: Attempt<Db>, wish: Wish, idempotency: &Idempotency<Db>, policy: Policy) -> Ended {
        let patience = idempotency.app.engine.store.patience;
        match held.into_parts() {
            (Some(lease), transaction) => end_lease(lease, transaction, wish, idempotency, policy).await,
            (None, Some(transaction)) => {
                let ended = end_open(Open { transaction, patience }, wish.not_again()).await;
                // Nothing is run again: another run would have other step keys.
                ended.map_err(|unsettled| if unsettled == Unsettled::Again { Unsettled::Unknown } else { unsettled })
            }
            (None, None) => Ok((wish.response(), Answer::Unprotected)),
        }
    }

    /// That nothing was saved here says nothing about what happened elsewhere.
    fn answer(code: Code) -> Code {
        if code == Code::StoreUnavailable { Code::OutcomeUnknown } else { code }
    }
}

async fn end_claim<Db: Backend>(
    claim: engine::Claim<Db>,
    wish: Wish,
    idempotency: &Idempotency<Db>,
    policy: Policy,
) -> Ended {
    let (writes, response) = match wish {
        Wish::Again(_) => return Err(again(claim.free().await)),
        Wish::Free(response) => return claim.free().await.map(|()| (response, Answer::Freed)),
        Wish::Failed(response) if policy.on_server_error == OnServerError::Release => {
            return claim.free().await.map(|()| (response, Answer::Freed));
        }
        Wish::Failed(response) => (Writes::Drop, response),
        Wish::Store(writes, response) => (writes, response),
    };
    match storable(response, claim.fingerprint(), policy).await {
        Ok((record, whole)) => claim.record(writes, record).await.map(|()| (whole.into_response(), Answer::Stored)),
        Err(code) => {
            let response = idempotency.app.render(code, policy.mismatch);
            claim.free().await.map(|()| (response, Answer::Problem(code)))
        }
    }
}

async fn end_open<Db: Backend>(open: Open<Db>, wish: Wish) -> Ended {
    let (settled, response) = match wish {
        Wish::Again(_) => return Err(again(open.free().await)),
        Wish::Store(Writes::Keep, response) => (open.keep().await, response),
        Wish::Store(Writes::Drop, response) | Wish::Free(response) | Wish::Failed(response) => {
            (open.free().await, response)
        }
    };
    settled.map(|()| (response, Answer::Unprotected))
}

async fn end_lease<Db: Backend>(
    lease: Lease<Db>,
    transaction: Option<Transaction<'static, Db>>,
    wish: Wish,
    idempotency: &Idempotency<Db>,
    policy: Policy,
) -> Ended {
    let (writes, response) = match wish.not_again() {
        Wish::Free(response) => return lease.free(transaction).await.map(|()| (response, Answer::Freed)),
        Wish::Failed(response) if policy.on_server_error == OnServerError::Reconcile => {
            return lease.leave(transaction).await.map(|()| (response, Answer::Left));
        }
        Wish::Failed(response) | Wish::Again(response) => (Writes::Drop, response),
        Wish::Store(writes, response) => (writes, response),
    };
    // The columns of the fingerprint were written by the claim.
    let code = match storable(response, Vec::new(), policy).await {
        Ok((record, whole)) => {
            let completed = lease.complete(transaction, writes, record).await;
            return completed.map(|()| (whole.into_response(), Answer::Stored));
        }
        Err(code) => code,
    };
    // What happened elsewhere stays: that its answer could not be stored is then the answer, to retries too.
    let problem = || idempotency.app.render(code, policy.mismatch);
    if policy.on_server_error != OnServerError::Reconcile
        && let Ok((record, whole)) = storable(problem(), Vec::new(), policy).await
    {
        let completed = lease.complete(transaction, Writes::Drop, record).await;
        return completed.map(|()| (whole.into_response(), Answer::Problem(code)));
    }
    lease.leave(transaction).await.map(|()| (problem(), Answer::Problem(code)))
}

/// A response as it is stored, and as it is sent.
pub(crate) async fn storable(
    response: Response,
    fingerprint: Vec<u8>,
    policy: Policy,
) -> Result<(Record, Whole), Code> {
    let whole = Whole::of(response, policy.max_response).await?;
    let record = whole.record(fingerprint, policy.set_cookie)?;
    Ok((record, whole))
}

fn again(freed: Result<(), Unsettled>) -> Unsettled {
    freed.err().unwrap_or(Unsettled::Again)
}
