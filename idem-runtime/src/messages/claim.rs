//! A message as it is claimed and settled, by the call `once` and by functions with the attribute: a claim as handlers have
//! it, and the value that the effect returned in place of a response.

use std::time::Instant;

use serde::{Serialize, de::DeserializeOwned};
use sqlx::Transaction;

use crate::{
    app::{
        Idempotency,
        problem::Code,
        telemetry::{Answer, answered},
    },
    backend::{Backend, Wanted},
    engine::{self, Panicked, Refusal, Unsettled, Writes},
    messages::{Consumer, ConsumeError, Once},
    model::{
        fingerprint::Print,
        handler_options::Handler,
        message_id::{EventId, MessageId},
        options::InProgress,
        record::Record,
        record_id::RecordId,
        scope::ScopeId,
    },
};

impl<Db: Backend> Consumer<'_, Db> {
    /// Claims the message.
    pub(crate) async fn claim(self, source: ScopeId, id: &(impl MessageId + ?Sized)) -> Result<Message<Db>, Unclaimed> {
        let since = Instant::now();
        let operation = self.operation;
        let refused = |why| Unclaimed { why, operation, since };
        let id = id.message_id().filter(|id| !id.is_empty()).ok_or_else(|| refused(Why::NoId))?;
        let source = source.digest().ok_or_else(|| refused(Why::Code(Code::ScopeEmpty)))?;
        let print = self.payload.unwrap_or_else(|| Print::of_message(&[]));
        let wanted = Wanted {
            id: RecordId::of_message(source, operation, &id),
            fingerprint: print,
            bytes: print,
            operation,
            retention: self.retention,
        };
        let engine = &self.idempotency.app.engine;
        match engine.claim::<engine::Claim<Db>>(&wanted, &self.isolation, InProgress::Reject).await {
            Ok(claim) => Ok(Message { claim, operation, since }),
            Err(refusal) => Err(refused(Why::of(refusal, &wanted))),
        }
    }
}

/// What tells a message from others under its id, where the attribute says so.
pub struct Payload(Option<Print>);

impl Payload {
    /// It does not.
    pub const NONE: Self = Self(None);
}

/// What the attribute's `payload` gives. A function for the sake of its error, as `event_id` is.
pub fn payload_of<P: AsRef<[u8]> + ?Sized>(payload: &P) -> Payload {
    Payload(Some(Print::of_message(payload.as_ref())))
}

/// Claims a message for a function with the attribute. Of the arguments nothing is borrowed: they need not be `Sync`.
///
/// # Errors
/// Why it does not run.
pub async fn message<Db: Backend>(
    idempotency: &Idempotency<Db>,
    handler: &'static Handler,
    source: ScopeId,
    id: EventId,
    Payload(payload): Payload,
) -> Result<Message<Db>, Unclaimed> {
    let policy = idempotency.app.policy.over(handler);
    let (retention, isolation) = (policy.retention, policy.isolation);
    Consumer { idempotency, operation: handler.operation, retention, isolation, payload }.claim(source, &id).await
}

/// What a consumer's function returns, taken apart.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say whether the effect failed",
    label = "not a `Result`",
    note = "a function that runs once for each message returns `Result<T, E>`, `T` serialisable: an `Err` rolls back",
    note = "an axum handler of events says so: `#[idempotent(webhook, scope = provider, key = event.id)]`"
)]
pub trait Returned {
    /// What is stored.
    type Value;
    /// What rolls back.
    type Error;
}

#[diagnostic::do_not_recommend]
impl<T, E> Returned for Result<T, E> {
    type Value = T;
    type Error = E;
}

/// What a consumer's function came to, as a `Result`: `Came(result).result()`.
///
/// Method look-up takes the inherent method for a `Result`. Everything else is an error already, by [`Returned`] in the
/// signature; [`ElseNoResult`] keeps it from being a second one.
pub struct Came<R>(pub Result<R, Panicked>);

impl<T, E> Came<Result<T, E>> {
    /// As it is.
    ///
    /// # Errors
    /// The function's panic.
    pub fn result(self) -> Result<Result<T, E>, Panicked> {
        self.0
    }
}

/// See [`Came`].
pub trait ElseNoResult {
    /// Never called.
    ///
    /// # Errors
    /// Always.
    fn result<T, E>(self) -> Result<Result<T, E>, Panicked>;
}

impl<R> ElseNoResult for Came<R> {
    fn result<T, E>(self) -> Result<Result<T, E>, Panicked> {
        Err(Panicked)
    }
}

/// A value that can be stored, and read back.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is the value of a consumer, and cannot be stored",
    label = "not serialisable, or not without borrowing",
    note = "derive `Serialize` and `Deserialize` of serde for it, or return `Result<(), E>`: a duplicate is told the stored value"
)]
pub trait Storable: Serialize + DeserializeOwned {}

#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned> Storable for T {}

/// How a value is stored and read back. Looked up in one place, so that a type for which it is missing is one error.
pub struct Form<T> {
    write: fn(&T) -> serde_json::Result<Vec<u8>>,
    read: fn(&[u8]) -> serde_json::Result<T>,
}

impl<T> Clone for Form<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Form<T> {}

/// By serde, as JSON.
#[must_use]
pub fn form<T: Storable>() -> Form<T> {
    Form { write: |value| serde_json::to_vec(value), read: |json| serde_json::from_slice(json) }
}

/// A claimed message. Dropped, it rolls back.
pub struct Message<Db: Backend> {
    claim: engine::Claim<Db>,
    operation: &'static str,
    since: Instant,
}

/// Why a message was not claimed.
pub struct Unclaimed {
    why: Why,
    operation: &'static str,
    since: Instant,
}

enum Why {
    /// The effect has run, and returned this.
    Done(Record),
    InProgress,
    OtherMessage,
    NoId,
    Code(Code),
}

impl Why {
    fn of(refusal: Refusal, wanted: &Wanted) -> Self {
        match refusal {
            Refusal::Completed(record) if wanted.is(&record.fingerprint) => Self::Done(record),
            Refusal::Completed(_) | Refusal::Mismatch => Self::OtherMessage,
            Refusal::Held(_) | Refusal::InProgress(_) => Self::InProgress,
            Refusal::Unavailable => Self::Code(Code::StoreUnavailable),
            Refusal::Schema => Self::Code(Code::Schema),
            Refusal::Unreadable => Self::Code(Code::RecordUnreadable),
        }
    }
}

impl Unclaimed {
    /// What the consumer is told.
    ///
    /// # Errors
    /// [`ConsumeError`], unless the effect has run before.
    pub fn said<T, E>(self, form: Form<T>) -> Result<Once<T>, ConsumeError<E>> {
        let (answer, said) = match self.why {
            Why::Done(record) => match record.value() {
                Some(json) => (Answer::Replayed, (form.read)(json).map(Once::AlreadyDone).map_err(ConsumeError::Value)),
                None => (Answer::Problem(Code::RecordUnreadable), Err(ConsumeError::Store(Code::RecordUnreadable))),
            },
            Why::InProgress => (Answer::Problem(Code::InProgress), Err(ConsumeError::InProgress)),
            Why::OtherMessage => (Answer::Problem(Code::KeyReuse), Err(ConsumeError::OtherMessage)),
            Why::NoId => (Answer::Problem(Code::EventIdMissing), Err(ConsumeError::NoId)),
            Why::Code(code) => (Answer::Problem(code), Err(ConsumeError::Store(code))),
        };
        answered(self.operation, answer, self.since);
        said
    }
}

impl<Db: Backend> Message<Db> {
    /// The open transaction.
    pub fn lent(&mut self) -> &mut Transaction<'static, Db> {
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
        let Self { claim, operation, since } = self;
        let value = match result {
            Ok(Ok(value)) => value,
            Ok(Err(error)) => return freed(claim, operation, since, ConsumeError::Failed(error)).await,
            Err(Panicked) => return freed(claim, operation, since, ConsumeError::Panicked).await,
        };
        let record = match (form.write)(&value) {
            Ok(json) => Record::of_value(claim.fingerprint(), json),
            Err(error) => return freed(claim, operation, since, ConsumeError::Value(error)).await,
        };
        let recorded = claim.record(Writes::Keep, record).await.map_err(code_of);
        answered(operation, recorded.map_or_else(Answer::Problem, |()| Answer::Stored), since);
        recorded.map(|()| Once::Ran(value)).map_err(ConsumeError::Store)
    }
}

/// Rolls back. Whether that succeeded matters to nobody: what was not committed is not there.
async fn freed<Db: Backend, T, E>(
    claim: engine::Claim<Db>,
    operation: &'static str,
    since: Instant,
    why: ConsumeError<E>,
) -> Result<Once<T>, ConsumeError<E>> {
    let _freed = claim.free().await;
    answered(operation, Answer::Freed, since);
    Err(why)
}

fn code_of(unsettled: Unsettled) -> Code {
    match unsettled {
        // Run again by the redelivery.
        Unsettled::Again => Code::Contention,
        Unsettled::Aborted => Code::TransactionAborted,
        Unsettled::Ended => Code::TransactionEnded,
        Unsettled::Unavailable => Code::StoreUnavailable,
        Unsettled::Schema => Code::Schema,
        Unsettled::Unknown => Code::OutcomeUnknown,
    }
}
