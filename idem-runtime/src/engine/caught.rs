//! A panic of the user's code as a value, so that it ends neither the task that owns the claim nor the connection to the
//! client.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
};

use futures_util::FutureExt as _;

/// The user's code panicked: a body, or what an option names.
#[derive(Clone, Copy, Debug)]
pub struct Panicked;

/// Runs a body and catches its panic.
///
/// # Errors
/// [`Panicked`] if it did.
pub async fn caught<F: Future>(body: F) -> Result<F::Output, Panicked> {
    AssertUnwindSafe(body).catch_unwind().await.map_err(|_| Panicked)
}

/// Calls a function and catches its panic. The expansion reads the scope, the key and the payload in it.
///
/// # Errors
/// [`Panicked`] if it did.
pub fn guarded<T>(function: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(function)).map_err(|_| Panicked)
}
