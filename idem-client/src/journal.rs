//! The hook that stores calls, so that a call interrupted by a crash can be resumed under its key.
//! The application implements it on its own storage; this crate decides when to call it.

use std::pin::Pin;

use reqwest::StatusCode;

use crate::{BoxError, Call};

/// Stores each call from before its first attempt until after its final response.
///
/// After a restart, [resume](Call::resume) every call that is still stored:
///
/// ```
/// use idem_client::{BoxError, Call, Journal, reqwest::StatusCode};
///
/// struct Folder(std::path::PathBuf);
///
/// impl Journal for Folder {
///     async fn keep(&self, call: &Call) -> Result<(), BoxError> {
///         std::fs::create_dir_all(&self.0)?;
///         std::fs::write(self.0.join(call.key().digest()), call.encode())?; // in production: fsync, in `spawn_blocking`
///         Ok(())
///     }
///
///     async fn forget(&self, call: &Call, _: StatusCode) -> Result<(), BoxError> {
///         Ok(std::fs::remove_file(self.0.join(call.key().digest()))?)
///     }
/// }
/// ```
pub trait Journal: Send + Sync + 'static {
    /// Stores a call before its first attempt. The call must be durable when this returns.
    ///
    /// # Errors
    /// Any error of the application. Nothing is sent, and the caller gets [`Error::NotKept`](crate::Error::NotKept).
    fn keep(&self, call: &Call) -> impl Future<Output = Result<(), BoxError>> + Send;

    /// Deletes a call that has its final response, just before the caller gets that response. By default this does
    /// nothing. If you must not lose the response, keep the default and delete the call in the transaction that stores the
    /// response.
    ///
    /// A final response can be a replayed 5xx. Then the outcome of the call is uncertain: find it out before you delete
    /// the call.
    ///
    /// # Errors
    /// Any error of the application. The client logs it, and the caller gets the response. If the call is resumed later,
    /// the server replays the response.
    fn forget(&self, call: &Call, status: StatusCode) -> impl Future<Output = Result<(), BoxError>> + Send {
        let _ = (call, status);
        async { Ok(()) }
    }
}

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A journal behind `dyn`.
pub(crate) trait AnyJournal: Send + Sync {
    fn keep<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<(), BoxError>>;
    fn forget<'a>(&'a self, call: &'a Call, status: StatusCode) -> BoxFuture<'a, Result<(), BoxError>>;
}

impl<J: Journal> AnyJournal for J {
    fn keep<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(Journal::keep(self, call))
    }

    fn forget<'a>(&'a self, call: &'a Call, status: StatusCode) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(Journal::forget(self, call, status))
    }
}
