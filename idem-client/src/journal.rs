//! The hook that keeps calls, so that one cut short by a crash is resumed under its key.
//! The application writes it, on its own database; idem only says when.

use std::pin::Pin;

use reqwest::StatusCode;

use crate::{BoxError, Call};

/// Keeps calls from before their first attempt until after their answer.
///
/// After a restart, [resume](Call::resume) every call that was kept and not forgotten:
///
/// ```
/// use idem_client::{BoxError, Call, Journal, reqwest::StatusCode};
///
/// struct Folder(std::path::PathBuf);
///
/// impl Journal for Folder {
///     async fn keep(&self, call: &Call) -> Result<(), BoxError> {
///         std::fs::create_dir_all(&self.0)?;
///         std::fs::write(self.0.join(call.key().digest()), call.encode())?; // a real one writes and syncs off the runtime
///         Ok(())
///     }
///
///     async fn forget(&self, call: &Call, _: StatusCode) -> Result<(), BoxError> {
///         Ok(std::fs::remove_file(self.0.join(call.key().digest()))?)
///     }
/// }
/// ```
pub trait Journal: Send + Sync + 'static {
    /// Keeps a call, before its first attempt. It must last when this returns.
    ///
    /// # Errors
    /// Whatever the application likes: nothing is sent, and the caller gets [`Error::NotKept`](crate::Error::NotKept).
    fn keep(&self, call: &Call) -> impl Future<Output = Result<(), BoxError>> + Send;

    /// Told that the call has its final answer, which the caller is about to get: any answer but those that are retried.
    /// Does nothing by default: whoever must not lose the answer forgets the call together with storing what it said.
    ///
    /// A replayed 5xx is final and says that the outcome is uncertain: look at what became of it before you forget it.
    ///
    /// # Errors
    /// Whatever the application likes: it is logged, and the caller gets the answer. Resumed once more, the call is replayed.
    fn forget(&self, call: &Call, status: StatusCode) -> impl Future<Output = Result<(), BoxError>> + Send {
        let _ = (call, status);
        async { Ok(()) }
    }
}

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A journal of whatever type.
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
