//! One effect for each message, for consumers of queues, which deliver at least once: the call, and what it tells.
//! How a message is claimed and settled is in `message`.

pub(crate) mod claim;

use futures_util::future::BoxFuture;
use serde::{Serialize, de::DeserializeOwned};
use sqlx::Transaction;

use crate::{
    app::{Idempotency, problem::Code},
    backend::Backend,
    engine::caught,
    messages::claim::form,
    model::{fingerprint::Print, message_id::MessageId, options::Isolation, retention::Retention, scope::Scope},
};

/// What a message came to. Either way its effect is there, exactly once: acknowledge it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Once<T> {
    /// It ran now, and its writes are committed; this is what it returned.
    Ran(T),
    /// It had run before; this is what it returned then.
    AlreadyDone(T),
}

impl<T> Once<T> {
    /// What the effect returned, now or before.
    pub fn into_value(self) -> T {
        match self {
            Self::Ran(value) | Self::AlreadyDone(value) => value,
        }
    }
}

/// Why a message must not be acknowledged. Nothing of it was committed, but where it says otherwise.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConsumeError<E> {
    /// The effect failed, and was rolled back; a redelivery runs.
    #[error("the effect failed")]
    Failed(#[source] E),
    /// The effect panicked, and was rolled back; a redelivery runs.
    #[error("the effect panicked")]
    Panicked,
    /// The same message is being processed elsewhere at this moment. What comes of it, its redelivery will tell.
    #[error("the message is being processed elsewhere")]
    InProgress,
    /// Another message came under this id before: the payload is another one. Nothing ran; a redelivery says the same.
    #[error("another message came under this id before")]
    OtherMessage,
    /// The message has no id, or an empty one: nothing tells its deliveries from other messages. Nothing ran.
    #[error("the message has no id")]
    NoId,
    /// The value does not serialise, or a stored one does not deserialise as this type. In the first case everything was
    /// rolled back, in the second the effect is there.
    #[error("the value of the effect cannot be stored or read")]
    Value(#[source] serde_json::Error),
    /// One of idem's own reasons, as handlers answer it. With [`Code::OutcomeUnknown`] the effect may be there; the
    /// redelivery finds out.
    #[error("{}", .0.title())]
    Store(Code),
}

/// The name of an effect and how it is claimed: of [`Idempotency::consumer`].
#[must_use]
pub struct Consumer<'i, Db: Backend> {
    pub(crate) idempotency: &'i Idempotency<Db>,
    pub(crate) operation: &'static str,
    pub(crate) retention: Retention,
    pub(crate) isolation: Option<Isolation>,
    pub(crate) payload: Option<Print>,
}

impl<Db: Backend> Idempotency<Db> {
    /// Runs an effect once for each message: [`Consumer::once`], of an operation called `once`. Where several consumers get
    /// the same messages, give each a name of its own: [`consumer`](Self::consumer).
    ///
    /// # Errors
    /// [`ConsumeError`]: do not acknowledge the message.
    pub async fn once<T: Serialize + DeserializeOwned, E>(
        &self,
        source: impl Scope,
        id: impl MessageId,
        effect: impl for<'t> FnOnce(&'t mut Transaction<'static, Db>) -> BoxFuture<'t, Result<T, E>>,
    ) -> Result<Once<T>, ConsumeError<E>> {
        self.consumer("once").once(source, id, effect).await
    }

    /// A consumer by the stored name of its effect. Two consumers have each message once each.
    pub fn consumer(&self, operation: &'static str) -> Consumer<'_, Db> {
        let policy = self.app.policy;
        let (retention, isolation) = (policy.retention, policy.isolation);
        Consumer { idempotency: self, operation, retention, isolation, payload: None }
    }
}

impl<Db: Backend> Consumer<'_, Db> {
    /// What tells this message from another under the same id: bytes that every delivery of it has alike. Without it, equal
    /// ids are equal messages.
    pub fn payload(mut self, payload: impl AsRef<[u8]>) -> Self {
        self.payload = Some(Print::of_message(payload.as_ref()));
        self
    }

    /// How long a message is remembered: longer than its queue may redeliver it. Default: the application's.
    pub fn retention(mut self, retention: Retention) -> Self {
        self.retention = retention;
        self
    }

    /// The isolation level of the transaction. Default: the application's.
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = Some(isolation);
        self
    }

    /// Runs the effect in the transaction that also records the message's id, unless it has run before.
    ///
    /// `source` is whose ids these are: two sources may use the same. Dropping the future rolls back. The effect owns what
    /// it captures, as with sqlx's own `Connection::transaction`: rustc cannot tell yet that an `async` closure over a
    /// borrowed transaction is `Send`. A function with the attribute borrows what it likes.
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")]
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// use idem_runtime::{Idempotency, messages::Once};
    /// use sqlx::{Executor, SqlitePool};
    ///
    /// let pool = SqlitePool::connect("sqlite::memory:").await?;
    /// pool.execute("CREATE TABLE receipts (message TEXT)").await?;
    /// let idempotency = Idempotency::builder(pool).build();
    /// idempotency.migrate().await?;
    ///
    /// let deliver = async || {
    ///     let consumer = idempotency.consumer("send_receipt");
    ///     consumer.once("orders", "m-1", |tx| Box::pin(async move {
    ///         sqlx::query("INSERT INTO receipts VALUES ('m-1')").execute(&mut **tx).await.map(|done| done.rows_affected())
    ///     })).await
    /// };
    /// assert_eq!(deliver().await?, Once::Ran(1));
    /// assert_eq!(deliver().await?, Once::AlreadyDone(1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ConsumeError`]: do not acknowledge the message.
    pub async fn once<T: Serialize + DeserializeOwned, E>(
        self,
        source: impl Scope,
        id: impl MessageId,
        effect: impl for<'t> FnOnce(&'t mut Transaction<'static, Db>) -> BoxFuture<'t, Result<T, E>>,
    ) -> Result<Once<T>, ConsumeError<E>> {
        let mut message = match self.claim(source.scope_id(), &id).await {
            Ok(message) => message,
            Err(unclaimed) => return unclaimed.said(form()),
        };
        let result = caught(async { effect(message.lent()).await }).await;
        message.settle(form(), result).await
    }
}
