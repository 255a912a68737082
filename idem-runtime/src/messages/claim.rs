//! Claims and settles a message, for the call `once` and for consumers with the attribute.
//! It is the claim of a handler, but it stores the value that the effect returned instead of a response.

use std::time::Instant;

use sqlx::Transaction;

use super::{ConsumeError, Consumer, Once, expansion::Payload, value::Form};
use crate::{
    app::{
        Idempotency,
        problem::Code,
        telemetry::{ResponseKind, report},
    },
    backend::{Backend, ClaimRequest, Durability},
    engine::{Claim, Panicked, Plans, Refusal, SettleErrorKind, TransactionTerms, Writes, log_unreadable},
    model::{
        fingerprint::Fingerprint,
        handler_options::HandlerOptions,
        message_id::OwnedMessageId,
        options::InProgress,
        record::{Record, StoredRecord, Unreadable},
        record_id::RecordId,
        scope::ScopeId,
    },
};

impl<Db: Backend> Consumer<'_, Db> {
    /// Claims the message.
    pub(super) async fn claim(
        self,
        source: Result<ScopeId, Panicked>,
        id: Result<OwnedMessageId, Panicked>,
    ) -> Result<Message<Db>, Unclaimed> {
        let started_at = Instant::now();
        let operation = self.operation;
        let refused = |why| Unclaimed { why, operation, started_at };
        let OwnedMessageId(id) = id.map_err(|Panicked| refused(Why::Panicked))?;
        let id = id.ok_or_else(|| refused(Why::NoId))?;
        let source = source.map_err(|Panicked| refused(Why::Panicked))?;
        let source = self.idempotency.app.namespace.scope(&source);
        let source = source.ok_or_else(|| refused(Why::Store(Code::ScopeEmpty, None)))?;
        let fingerprint = self.payload.unwrap_or_else(Fingerprint::of_nothing);
        let request = ClaimRequest {
            id: RecordId::of_message(&source, operation, &id),
            fingerprint,
            bytes: fingerprint,
            operation,
            retention: self.retention,
            durability: Durability::Demanded,
            session: self.idempotency.app.sessions.of(operation),
        };
        let engine = &self.idempotency.app.engine;
        let terms = TransactionTerms { isolation: self.isolation, plans: Plans::Cached };
        match engine.claim::<Claim<Db>>(&request, &terms, InProgress::Reject).await {
            Ok(claim) => {
                let idempotency = self.idempotency.clone();
                Ok(Message { claim, idempotency, operation, started_at })
            }
            Err(refusal) => Err(refused(Why::of(refusal, &request))),
        }
    }
}

/// Claims a message for a consumer with the attribute. It borrows no argument, so the arguments need not be `Sync`.
///
/// # Errors
/// Why the function does not run.
pub async fn message<Db: Backend>(
    idempotency: &Idempotency<Db>,
    handler: &'static HandlerOptions,
    source: Result<ScopeId, Panicked>,
    id: Result<OwnedMessageId, Panicked>,
    payload: Result<Payload, Panicked>,
) -> Result<Message<Db>, Unclaimed> {
    let policy = idempotency.app.policy.over(handler);
    let (retention, isolation) = (policy.retention, policy.isolation);
    let (source, payload) = match payload {
        Ok(Payload(payload)) => (source, payload),
        Err(panicked) => (Err(panicked), None),
    };
    Consumer { idempotency, operation: handler.operation, retention, isolation, payload }.claim(source, id).await
}

/// A claimed message. Dropping it rolls back.
pub struct Message<Db: Backend> {
    claim: Claim<Db>,
    idempotency: Idempotency<Db>,
    operation: &'static str,
    started_at: Instant,
}

/// Why a message was not claimed.
pub struct Unclaimed {
    why: Why,
    operation: &'static str,
    started_at: Instant,
}

enum Why {
    /// The effect ran before; the record holds its value.
    Done(RecordId, Record),
    InProgress,
    OtherMessage,
    NoId,
    /// Its source, its id or its payload could not be read.
    Panicked,
    Store(Code, Option<sqlx::Error>),
}

impl Why {
    fn of(refusal: Refusal, request: &ClaimRequest) -> Self {
        match refusal {
            Refusal::Completed(StoredRecord { record, .. }) if request.matches(&record.fingerprint) => {
                Self::Done(request.id, record)
            }
            Refusal::Completed(StoredRecord { record, .. })
                if Fingerprint::from_bytes(&record.fingerprint).is_none() =>
            {
                log_unreadable(&request.id, &Unreadable::Fingerprint);
                Self::Store(Code::RecordUnreadable, None)
            }
            Refusal::Completed(_) | Refusal::Mismatch(_) => Self::OtherMessage,
            Refusal::InProgressRecord(_) | Refusal::InProgress(_) => Self::InProgress,
            Refusal::Store(error) => Self::Store(error.kind.into(), error.source),
        }
    }
}

impl Unclaimed {
    /// The result of the delivery.
    ///
    /// # Errors
    /// [`ConsumeError`], unless the effect ran before.
    pub fn into_result<T, E>(self, form: Form<T>) -> Result<Once<T>, ConsumeError<E>> {
        let (kind, result) = match self.why {
            Why::Done(id, record) => match record.value(&id) {
                Ok(json) => {
                    (ResponseKind::Replayed, form.read(json).map(Once::AlreadyDone).map_err(ConsumeError::Value))
                }
                Err(unreadable) => {
                    log_unreadable(&id, &unreadable);
                    store(Code::RecordUnreadable, None)
                }
            },
            Why::InProgress => (ResponseKind::Problem(Code::InProgress), Err(ConsumeError::InProgress)),
            Why::OtherMessage => (ResponseKind::Problem(Code::KeyReuse), Err(ConsumeError::OtherMessage)),
            Why::NoId => (ResponseKind::Problem(Code::EventIdMissing), Err(ConsumeError::NoId)),
            Why::Panicked => (ResponseKind::Problem(Code::HandlerPanicked), Err(ConsumeError::Panicked)),
            Why::Store(code, source) => store(code, source),
        };
        report(self.operation, kind, self.started_at);
        result
    }
}

fn store<T, E>(code: Code, source: Option<sqlx::Error>) -> (ResponseKind, Result<T, ConsumeError<E>>) {
    (ResponseKind::Problem(code), Err(ConsumeError::Store { code, source }))
}

impl<Db: Backend> Message<Db> {
    /// The open transaction.
    pub fn param(&mut self) -> &mut Transaction<'static, Db> {
        &mut self.claim.transaction
    }

    /// Commits the effect and its value, or rolls back.
    ///
    /// # Errors
    /// [`ConsumeError`], unless it is committed.
    pub async fn settle<T, E>(
        self,
        form: Form<T>,
        result: Result<Result<T, E>, Panicked>,
    ) -> Result<Once<T>, ConsumeError<E>> {
        let value = match result {
            Ok(Ok(value)) => value,
            Ok(Err(error)) => return self.release(ConsumeError::Failed(error)).await,
            Err(Panicked) => {
                return self.release_as(ResponseKind::Problem(Code::HandlerPanicked), ConsumeError::Panicked).await;
            }
        };
        // A value that its own type cannot read would be an error at every redelivery, after the commit.
        let written = form.write(&value).and_then(|json| form.read(&json).map(|_| json));
        let record = match written {
            Ok(json) => Record::of_value(&self.claim.id(), self.claim.fingerprint(), json),
            Err(error) => return self.release(ConsumeError::Value(error)).await,
        };
        let Self { claim, idempotency, operation, started_at } = self;
        let (kind, result) = match claim.record(Writes::Keep, record).await {
            Ok(()) => (ResponseKind::Stored, Ok(Once::Ran(value))),
            Err(unsettled) => {
                if unsettled.kind == SettleErrorKind::TableHidden {
                    // The effect cannot run again here. The next delivery finds the session restored.
                    idempotency.app.sessions.restore(operation);
                }
                store(unsettled.kind.into(), unsettled.source)
            }
        };
        report(operation, kind, started_at);
        result
    }

    async fn release<T, E>(self, why: ConsumeError<E>) -> Result<Once<T>, ConsumeError<E>> {
        self.release_as(ResponseKind::Released, why).await
    }

    /// Rolls back. The result does not matter: what is not committed does not exist.
    async fn release_as<T, E>(self, kind: ResponseKind, why: ConsumeError<E>) -> Result<Once<T>, ConsumeError<E>> {
        let _freed = self.claim.release().await;
        report(self.operation, kind, self.started_at);
        Err(why)
    }
}
