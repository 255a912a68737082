//! What the expansion of a consumer uses besides the claim: the payload, and the function's result.
//! It is public for the expansion only.

use crate::{engine::Panicked, model::fingerprint::Fingerprint};

/// The fingerprint of a message's payload, if the attribute names one.
pub struct Payload(pub(super) Option<Fingerprint>);

impl Payload {
    /// No payload: equal ids mean equal messages.
    pub const NONE: Self = Self(None);
}

/// The value of the attribute's `payload`. A function, so that a wrong type is reported at the argument.
pub fn payload_of<P: AsRef<[u8]> + ?Sized>(payload: &P) -> Payload {
    Payload(Some(Fingerprint::of_message(payload.as_ref())))
}

/// The value and the error of a consumer's return type.
#[diagnostic::on_unimplemented(
    message = "expected a consumer to return `Result<T, E>`, found `{Self}`",
    label = "not a `Result`",
    note = "return `Result<T, E>` with a serialisable `T`: an `Err` rolls back",
    note = "or add `webhook` to make it a webhook handler: `#[idempotent(webhook, scope = provider, key = event.id)]`"
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

/// The outcome of a consumer's function as a `Result`: `ResultProbe(result).__result()`.
///
/// Method look-up takes the inherent method for a `Result`. Other types are an error already, by [`Returned`] in the
/// signature; [`ResultFallback`] prevents a second error.
pub struct ResultProbe<R>(pub Result<R, Panicked>);

impl<T, E> ResultProbe<Result<T, E>> {
    /// The result of the function.
    ///
    /// # Errors
    /// The function's panic.
    pub fn __result(self) -> Result<Result<T, E>, Panicked> {
        self.0
    }
}

/// See [`ResultProbe`].
pub trait ResultFallback {
    /// Never called.
    ///
    /// # Errors
    /// Always.
    fn __result<T, E>(self) -> Result<Result<T, E>, Panicked>;
}

impl<R> ResultFallback for ResultProbe<R> {
    fn __result<T, E>(self) -> Result<Result<T, E>, Panicked> {
        Err(Panicked)
    }
}
