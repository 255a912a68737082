//! One effect for each message, for consumers of queues, which deliver at least once.
//!
//! Annotate an `async fn` with `#[idempotent(scope = source, key = message.id)]`, or call [`Idempotency::once`]. Either
//! way the effect's writes, the message's id and the effect's value commit in one transaction.

use futures_util::future::BoxFuture;
use serde::{Serialize, de::DeserializeOwned};
use sqlx::Transaction;

use crate::{
    app::Idempotency,
    backend::Backend,
    engine::caught,
    model::{
        fingerprint::Fingerprint, message_id::MessageId, operation::check_operation, options::Isolation,
        retention::Retention, scope::Scope,
    },
};

pub(crate) mod claim;
pub(crate) mod expansion;
mod outcome;
pub(crate) mod value;

pub use outcome::{ConsumeError, Once};
use value::form;

/// The name of an effect and how it is claimed: of [`Idempotency::consumer`].
#[must_use]
pub struct Consumer<'i, Db: Backend> {
    pub(crate) idempotency: &'i Idempotency<Db>,
    pub(crate) operation: &'static str,
    pub(crate) retention: Retention,
    pub(crate) isolation: Option<Isolation>,
    pub(crate) payload: Option<Fingerprint>,
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

    /// A consumer by the stored name of its operation. Two consumers run each message once each.
    ///
    /// # Panics
    /// Unless the name is 1 to 128 visible ASCII characters.
    #[track_caller]
    pub fn consumer(&self, operation: &'static str) -> Consumer<'_, Db> {
        check_operation(operation);
        let policy = self.app.policy;
        let (retention, isolation) = (policy.retention, policy.isolation);
        Consumer { idempotency: self, operation, retention, isolation, payload: None }
    }
}

impl<Db: Backend> Consumer<'_, Db> {
    /// What tells this message from another under the same id: bytes that every delivery of it has alike. Without it, equal
    /// ids are equal messages.
    pub fn payload(mut self, payload: impl AsRef<[u8]>) -> Self {
        self.payload = Some(Fingerprint::of_message(payload.as_ref()));
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
            Err(unclaimed) => return unclaimed.into_result(form()),
        };
        let result = caught(async { effect(message.param()).await }).await;
        message.settle(form(), result).await
    }
}
