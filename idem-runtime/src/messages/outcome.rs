//! The result of one delivery of a message: done now or before, or the reason not to acknowledge it.
//! An acknowledged message is not delivered again, so `Once` exists only after COMMIT.

use crate::app::problem::Code;

/// A message whose effect is committed, exactly once: acknowledge it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Once<T> {
    /// The effect ran now and its writes are committed. This is its value.
    Ran(T),
    /// The effect ran at an earlier delivery. This is the value that it returned then.
    AlreadyDone(T),
}

impl<T> Once<T> {
    /// The value of the effect.
    pub fn into_value(self) -> T {
        match self {
            Self::Ran(value) | Self::AlreadyDone(value) => value,
        }
    }
}

/// Why a message must not be acknowledged. Unless a variant says otherwise, nothing was committed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConsumeError<E> {
    /// The effect returned an error and was rolled back. A redelivery runs it.
    #[error("the effect failed")]
    Failed(#[source] E),
    /// The effect panicked and was rolled back, or the source, the id or the payload could not be read because its
    /// expression panicked. A redelivery runs the effect.
    #[error("the effect panicked")]
    Panicked,
    /// Another process or task is handling the same message. A redelivery returns the outcome.
    #[error("another delivery of the message is in progress")]
    InProgress,
    /// Another message used this id before: its payload differs. Nothing ran; a redelivery returns the same.
    #[error("another message used this id before")]
    OtherMessage,
    /// The message has no id, or an empty one, so its deliveries cannot be distinguished from other messages. Nothing
    /// ran.
    #[error("the message has no id")]
    NoId,
    /// The value does not serialize, or what was serialized does not deserialize as this type: everything was rolled
    /// back. Or the stored value of an earlier delivery does not deserialize: the effect was committed before, and the
    /// type has changed since.
    ///
    /// A value that JSON reads back as another value is not recognized: `Some(())` and `Some(f64::INFINITY)` become
    /// `None`.
    #[error("the value of the effect cannot be stored or read")]
    Value(#[source] serde_json::Error),
    /// A failure of idem or its database. With [`Code::OutcomeUnknown`] the effect may be committed; a redelivery
    /// returns the outcome.
    #[error("{}", .code.title())]
    #[non_exhaustive]
    Store {
        /// The reason, as a handler's problem document would carry it.
        code: Code,
        /// The error of the database or of the pool, if there is one. [`sqlx::Error::PoolTimedOut`]: every connection of the
        /// pool was in use. [`sqlx::Error::Io`] of kind `TimedOut`: the database accepted no connection, or did not respond
        /// within [`database_timeout`](crate::Builder::database_timeout).
        source: Option<sqlx::Error>,
    },
}
