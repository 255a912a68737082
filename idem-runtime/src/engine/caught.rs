//! A panic of the user's code as a value: it must not end the task that owns the claim.

use std::{future::Future, panic::AssertUnwindSafe};

use futures_util::FutureExt as _;

/// What a body's panic leaves.
pub struct Panicked;

/// Runs a body; its panic is an outcome.
///
/// # Errors
/// [`Panicked`] if it did.
pub async fn caught<F: Future>(body: F) -> Result<F::Output, Panicked> {
    AssertUnwindSafe(body).catch_unwind().await.map_err(|_| Panicked)
}
