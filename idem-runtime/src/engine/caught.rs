//! A panic of the user's code as a value, so that it does not end the task that owns the claim.

use std::{future::Future, panic::AssertUnwindSafe};

use futures_util::FutureExt as _;

/// A body panicked.
pub struct Panicked;

/// Runs a body and catches its panic.
///
/// # Errors
/// [`Panicked`] if it did.
pub async fn caught<F: Future>(body: F) -> Result<F::Output, Panicked> {
    AssertUnwindSafe(body).catch_unwind().await.map_err(|_| Panicked)
}
