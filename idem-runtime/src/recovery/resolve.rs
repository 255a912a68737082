//! Manual resolution of stalled attempts: list them, and decide one.
//! Each decision is logged with who made it.

use crate::{
    app::{Idempotency, problem::Code},
    backend::{AttemptId, Backend, Holder, Take, error::Error},
    engine::{self, Writes, to_completion},
    http::effects::{storable, writes},
    model::{lease_duration::LeaseDuration, record::Record, record_id::RecordId},
    recovery::{StalledAttempt, reconcile::Verdict},
};

/// The most attempts that are listed.
const MAX_LISTED: i64 = 1000;

/// A verdict, ready to be written.
enum Decision {
    Complete(Writes, Record),
    Free,
    AskAgain,
}

/// Why a record was not resolved manually.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// There is no such record, or it is already resolved, or its attempt is still running.
    #[error("no stalled record has this id: it was already resolved, or its attempt is still running")]
    NotStalled,
    /// The response cannot be stored: too large, or its body failed. Nothing was changed.
    #[error("the response cannot be stored: {}", .0.as_str())]
    Response(Code),
    /// It is unknown whether the decision was written. List again before you decide again.
    #[error("it is unknown whether the decision was written")]
    #[non_exhaustive]
    NotWritten {
        /// The error of the database or of the pool. `None` if another attempt has decided, or is about to.
        source: Option<sqlx::Error>,
    },
    /// The database returned an error, or could not be reached. Nothing was changed.
    #[error("the idempotency store's database failed")]
    Database(#[from] sqlx::Error),
}

impl<Db: Backend> Idempotency<Db> {
    /// Lists the stalled attempts, at most a thousand, the oldest first. The recovery decides those whose operation has
    /// a reconciler, up to [`max_tries`](crate::recovery::Recovery::max_tries). Decide the others with
    /// [`resolve`](Self::resolve).
    ///
    /// # Errors
    /// [`Error::Database`].
    pub async fn stalled(&self) -> Result<Vec<StalledAttempt>, Error> {
        let listing = self
            .app
            .engine
            .store
            .step(async move |mut connection, schema| Db::stalled(&mut connection, &schema, MAX_LISTED).await);
        Ok(listing.await?.into_iter().map(StalledAttempt::of).collect())
    }

    /// Decides a stalled attempt's record manually, and logs who did so (`by`) and the verdict.
    ///
    /// [`Verdict::Completed`] stores the response. [`Verdict::NeverExecuted`] releases the key. [`Verdict::Unknown`]
    /// makes the record due at once and resets its count of tries. A reconciler that is running for the record decides
    /// nothing any more.
    ///
    /// # Errors
    /// - [`ResolveError::NotStalled`]: there is no stalled attempt with this id.
    /// - [`ResolveError::Response`]: the response cannot be stored.
    /// - [`ResolveError::Database`]: the database failed before anything was changed.
    /// - [`ResolveError::NotWritten`]: the database failed or a reconciler was faster. List again before you decide again.
    pub async fn resolve(&self, id: RecordId, by: &str, verdict: Verdict) -> Result<(), ResolveError> {
        let store = &self.app.engine.store;
        let verdict_name = verdict.as_str();
        // Before the database is changed.
        let decision = match verdict {
            Verdict::Completed(response) => {
                let writes = writes(&response);
                let stored = storable(response, &id, Vec::new(), self.app.policy).await;
                Decision::Complete(writes, stored.map_err(ResolveError::Response)?.0)
            }
            Verdict::NeverExecuted => Decision::Free,
            Verdict::Unknown => Decision::AskAgain,
        };
        let attempt = AttemptId::random().map_err(|error| sqlx::Error::Io(error.into()))?;
        let (store, by) = (store.clone(), by.to_owned());
        // The caller may drop this future: the decision is logged all the same.
        to_completion(async move {
            let length = store.timeout.saturating_mul(2).min(LeaseDuration::MAX.length());
            let taking = store.step(async move |mut connection, schema| {
                Db::take(&mut connection, &schema, Take::One(&id), attempt, length).await
            });
            let operation = taking.await?.ok_or(ResolveError::NotStalled)?.operation;
            let lease = engine::Lease::taken_over(store, Holder { id, attempt });
            let ended = match decision {
                Decision::Complete(writes, record) => lease.complete(None, writes, record).await,
                Decision::Free => lease.release(None).await,
                Decision::AskAgain => lease.retry_now().await,
            };
            let outcome = if ended.is_ok() { "written" } else { "not written" };
            tracing::info!(record = %id, operation, by, verdict = verdict_name, outcome, "resolved manually");
            ended.map_err(|unsettled| ResolveError::NotWritten { source: unsettled.source })
        })
        .await
    }
}
