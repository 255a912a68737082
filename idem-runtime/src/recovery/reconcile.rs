//! How a dead attempt is decided: what a reconciler is told, and the verdicts it can give.
//! An attempt is dead when its lease has run out; it is never run again, so somebody has to ask what it did elsewhere.

use std::future::Future;

use axum::response::{IntoResponse, Response};
use futures_util::future::BoxFuture;

use super::StalledAttempt;
use crate::{backend::Backend, engine::attempt::Attempt};

/// Any error of a reconciler. Its text is kept with the record, so it should hold no secret.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Finds out what a dead attempt did elsewhere: by its step keys, or by the stored request.
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
///             // A call of the dead attempt may still be under way: "none" counts only when said twice, a pause apart.
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
    /// Asks, and gives the verdict. May be asked about one record by several nodes one after the other, and again after it
    /// has answered [`Verdict::Unknown`] or an error.
    ///
    /// # Errors
    /// What kept it from finding out: it is asked again later, as after [`Verdict::Unknown`].
    fn reconcile(
        &self,
        stalled: &StalledAttempt,
        attempt: &mut Attempt<Db>,
    ) -> impl Future<Output = Result<Verdict, BoxError>> + Send;
}

/// What became of a dead attempt.
#[derive(Debug)]
pub enum Verdict {
    /// It happened, and this is its answer: stored, and replayed to every retry. What was written through the attempt's
    /// transaction commits with it, by the rule for handlers: with 2xx and 3xx, or as a [`Settle`](crate::Settle) on it says.
    /// Give the very response that the handler would have given.
    Completed(Response),
    /// Nothing happened and nothing will: the key is freed, so that a retry runs. Only say so if no call of the dead attempt
    /// can still arrive, or if one that does would meet the step key of the retry.
    NeverExecuted,
    /// It cannot be told yet: ask again later.
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

/// A reconciler whose type is forgotten, so that a recovery holds several.
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
