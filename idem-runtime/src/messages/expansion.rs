//! What the expansion of `#[idempotent]` on a consumer names besides the claim: the payload, and the function's result.

use crate::{engine::Panicked, model::fingerprint::Fingerprint};

/// The fingerprint of a message's payload, if the attribute names one.
pub struct Payload(pub(super) Option<Fingerprint>);

impl Payload {
    /// Equal ids are equal messages.
    pub const NONE: Self = Self(None);
}

/// The value of the attribute's `payload`. A function, so that a wrong type is reported at the argument.
pub fn payload_of<P: AsRef<[u8]> + ?Sized>(payload: &P) -> Payload {
    Payload(Some(Fingerprint::of_message(payload.as_ref())))
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

/// What a consumer's function came to, as a `Result`: `ResultProbe(result).__result()`.
///
/// Method look-up takes the inherent method for a `Result`. Everything else is an error already, by [`Returned`] in the
/// signature; [`ResultFallback`] keeps it from being a second one.
pub struct ResultProbe<R>(pub Result<R, Panicked>);

impl<T, E> ResultProbe<Result<T, E>> {
    /// As it is.
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
