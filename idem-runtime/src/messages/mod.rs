//! One effect for each message, for consumers of queues that deliver at least once.
//!
//! Annotate an `async fn` with `#[idempotent(scope = source, key = message.id)]`, or call [`Idempotency::once`]. In
//! both cases the effect's writes, the message's id and the effect's value commit in one transaction.

use futures_util::future::BoxFuture;
use serde::{Serialize, de::DeserializeOwned};
use sqlx::Transaction;

use crate::{
    app::Idempotency,
    backend::Backend,
    engine::{caught, guarded},
    model::{
        fingerprint::Fingerprint,
        message_id::{MessageId, message_id_of},
        operation::check_operation,
        options::Isolation,
        retention::Retention,
        scope::Scope,
    },
};

pub(crate) mod claim;
pub(crate) mod expansion;
mod outcome;
pub(crate) mod value;

pub use outcome::{ConsumeError, Once};
use value::form;

/// A consumer of messages, from [`Idempotency::consumer`]: the name of its operation, and how messages are claimed.
#[must_use]
pub struct Consumer<'i, Db: Backend> {
    pub(crate) idempotency: &'i Idempotency<Db>,
    pub(crate) operation: &'static str,
    pub(crate) retention: Retention,
    pub(crate) isolation: Option<Isolation>,
    pub(crate) payload: Option<Fingerprint>,
}

impl<Db: Backend> Idempotency<Db> {
    /// Runs an effect once for each message: [`Consumer::once`] of the operation `once`. If several consumers get the
    /// same messages, give each of them a name with [`consumer`](Self::consumer).
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

    /// Creates a consumer. `operation` is the stored name of its effect. Each consumer processes every message once.
    ///
    /// # Panics
    /// Unless the name is 1 to 128 visible ASCII characters, as in the attribute.
    #[track_caller]
    pub fn consumer(&self, operation: &'static str) -> Consumer<'_, Db> {
        check_operation(operation);
        let policy = self.app.policy;
        let (retention, isolation) = (policy.retention, policy.isolation);
        Consumer { idempotency: self, operation, retention, isolation, payload: None }
    }
}

impl<Db: Backend> Consumer<'_, Db> {
    /// Sets bytes that are equal at every delivery of this message. Another message that reuses the id is then reported
    /// as [`ConsumeError::OtherMessage`]. Without a payload, equal ids mean equal messages.
    pub fn payload(mut self, payload: impl AsRef<[u8]>) -> Self {
        self.payload = Some(Fingerprint::of_message(payload.as_ref()));
        self
    }

    /// Sets how long a message is remembered. Choose it longer than the queue may redeliver a message. Default: the
    /// application's.
    pub fn retention(mut self, retention: Retention) -> Self {
        self.retention = retention;
        self
    }

    /// Sets the isolation level of the transaction. Default: the application's.
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = Some(isolation);
        self
    }

    /// Runs the effect in the transaction that also records the message's id, unless it has run before.
    ///
    /// `source` is the scope of the ids: two sources may use the same id. Dropping the future rolls back. The effect
    /// owns what it captures, as with sqlx's `Connection::transaction`: rustc cannot prove yet that an `async` closure
    /// over a borrowed transaction is `Send`. A consumer with the attribute may borrow its parameters.
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
        let mut message = match self.claim(guarded(|| source.scope_id()), guarded(|| message_id_of(&id))).await {
            Ok(message) => message,
            Err(unclaimed) => return unclaimed.into_result(form()),
        };
        let result = caught(async { effect(message.param()).await }).await;
        message.settle(form(), result).await
    }
}
