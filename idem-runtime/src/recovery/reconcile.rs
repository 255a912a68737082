//! The reconciler of stalled attempts: what it gets, and the verdicts it can return.
//! An attempt with external effects never runs again, so a reconciler asks the other system what the attempt did.

use std::future::Future;

use axum::response::{IntoResponse, Response};
use futures_util::future::BoxFuture;

use super::StalledAttempt;
use crate::{backend::Backend, engine::attempt::Attempt};

/// Any error of a reconciler. Its text is stored with the record, so it should contain no secret.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Finds out what a stalled attempt did in other systems, by its step keys or by the stored request.
///
/// ```
/// use axum::{Json, http::StatusCode};
/// use idem_runtime::{Attempt, recovery::{BoxError, Reconciler, StalledAttempt, Verdict}};
/// # #[cfg(feature = "postgres")] type Db = sqlx::Postgres;
/// # #[cfg(not(feature = "postgres"))] type Db = sqlx::Sqlite;
/// # #[derive(serde::Serialize)] struct Charge { id: String }
/// # struct Network;
/// # impl Network { async fn by_key(&self, _key: String) -> Result<Option<Charge>, std::io::Error> { Ok(None) } }
///
/// struct AskNetwork {
///     network: Network,
/// }
///
/// impl Reconciler<Db> for AskNetwork {
///     async fn reconcile(&self, stalled: &StalledAttempt, attempt: &mut Attempt<Db>) -> Result<Verdict, BoxError> {
///         match self.network.by_key(attempt.key("charge").to_string()).await? {
///             // A call of the stalled attempt may still be in flight: only a second "none" counts, one pause later.
///             None if stalled.tries() == 0 => Ok(Verdict::Unknown),
///             None => Ok(Verdict::NeverExecuted),
///             Some(charge) => {
///                 let insert = sqlx::query("INSERT INTO charges (id) VALUES ($1)").bind(&charge.id);
///                 insert.execute(&mut **attempt.transaction().await?).await?;
///                 Ok(Verdict::completed((StatusCode::CREATED, Json(charge))))
///             }
///         }
///     }
/// }
/// ```
pub trait Reconciler<Db: Backend>: Send + Sync + 'static {
    /// Returns the verdict. It may be called for one record by several nodes, one after the other, and again after it
    /// has returned [`Verdict::Unknown`] or an error.
    ///
    /// # Errors
    /// Any error that prevents a verdict: the reconciler is called again later, as after [`Verdict::Unknown`].
    fn reconcile(
        &self,
        stalled: &StalledAttempt,
        attempt: &mut Attempt<Db>,
    ) -> impl Future<Output = Result<Verdict, BoxError>> + Send;
}

/// What happened to a stalled attempt.
#[derive(Debug)]
pub enum Verdict {
    /// It happened, and this is its response: stored, and replayed to every retry. The writes through the attempt's
    /// transaction commit with it, by the rule for handlers: with 2xx and 3xx, or as a [`Settle`](crate::Settle) on it
    /// says. Return the response that the handler would have returned.
    Completed(Response),
    /// Nothing happened and nothing will: the key is released, so that a retry runs. Return it only if no call of the
    /// stalled attempt can still arrive, or if the other system would deduplicate such a call with the retry's by their
    /// step key.
    NeverExecuted,
    /// It is not known yet: ask again later.
    Unknown,
}

impl Verdict {
    /// [`Verdict::Completed`] with anything that is a response.
    pub fn completed(response: impl IntoResponse) -> Self {
        Self::Completed(response.into_response())
    }

    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::Completed(_) => "completed",
            Self::NeverExecuted => "never executed",
            Self::Unknown => "unknown",
        }
    }
}

/// A reconciler with its type erased, so that a recovery can hold several.
pub(crate) trait AnyReconciler<Db: Backend>: Send + Sync {
    fn ask<'a>(
        &'a self,
        stalled: &'a StalledAttempt,
        attempt: &'a mut Attempt<Db>,
    ) -> BoxFuture<'a, Result<Verdict, BoxError>>;
}

impl<Db: Backend, R: Reconciler<Db>> AnyReconciler<Db> for R {
    fn ask<'a>(
        &'a self,
        stalled: &'a StalledAttempt,
        attempt: &'a mut Attempt<Db>,
    ) -> BoxFuture<'a, Result<Verdict, BoxError>> {
        Box::pin(self.reconcile(stalled, attempt))
    }
}
