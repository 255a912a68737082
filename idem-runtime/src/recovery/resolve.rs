//! What a person can do about dead attempts: list them, and decide one by hand.
//! Each decision leaves in the log who made it, and what it was.

use crate::{
    app::{Idempotency, problem::Code},
    backend::{AttemptId, Backend, Holder, Take, error::Error},
    engine::{self, Writes, to_completion},
    http::effects::{storable, writes},
    model::{lease_duration::LeaseDuration, record::Record, record_id::RecordId},
    recovery::{StalledAttempt, reconcile::Verdict},
};

/// How many are listed at most.
const MAX_LISTED: i64 = 1000;

/// A verdict, ready to be written.
enum Decision {
    Complete(Writes, Record),
    Free,
    AskAgain,
}

/// Why a record was not decided by hand.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// There is no such record, or it is decided, or its attempt is still alive.
    #[error("there is no dead attempt of that name: it is decided, or its lease still runs")]
    NotStalled,
    /// The response cannot be stored: too large, or its body failed. Nothing was changed.
    #[error("the response cannot be stored: {}", .0.as_str())]
    Response(Code),
    /// The decision could not be written for certain. List again before deciding again.
    #[error("the decision could not be written for certain")]
    NotWritten,
    /// The database answered with an error, or could not be reached.
    #[error(transparent)]
    Store(#[from] Error),
}

impl<Db: Backend> Idempotency<Db> {
    /// Lists the dead attempts whose records are not decided, up to a thousand, those first that began first. The recovery
    /// decides them if it has a reconciler for their operation and has not asked too often; the others wait for
    /// [`resolve`](Self::resolve).
    ///
    /// # Errors
    /// [`Error::Database`].
    pub async fn stalled(&self) -> Result<Vec<StalledAttempt>, Error> {
        let listing =
            self.app.engine.store.step(async move |mut connection| Db::stalled(&mut connection, MAX_LISTED).await);
        Ok(listing.await?.into_iter().map(StalledAttempt::of).collect())
    }

    /// Decides a dead attempt's record by hand, and logs who did (`by`) and what was decided.
    ///
    /// [`Verdict::Completed`] stores the answer, [`Verdict::NeverExecuted`] frees the key, and [`Verdict::Unknown`] has the
    /// recovery ask again at once, as if it had not been asked before. A reconciler that is being asked meanwhile decides
    /// nothing any more.
    ///
    /// # Errors
    /// [`ResolveError`].
    pub async fn resolve(&self, id: RecordId, by: &str, verdict: Verdict) -> Result<(), ResolveError> {
        let store = &self.app.engine.store;
        let said = verdict.as_str();
        // Before anything is touched.
        let decision = match verdict {
            Verdict::Completed(response) => {
                let writes = writes(&response);
                let stored = storable(response, Vec::new(), self.app.policy).await;
                Decision::Complete(writes, stored.map_err(ResolveError::Response)?.0)
            }
            Verdict::NeverExecuted => Decision::Free,
            Verdict::Unknown => Decision::AskAgain,
        };
        let attempt = AttemptId::random().map_err(|error| Error::Database(sqlx::Error::Io(error.into())))?;
        let (store, by) = (store.clone(), by.to_owned());
        // Whoever is told of it may have gone: what is decided is in the log all the same.
        to_completion(async move {
            let length = store.timeout.saturating_mul(2).min(LeaseDuration::MAX.length());
            let taking = store
                .step(async move |mut connection| Db::take(&mut connection, Take::One(&id), attempt, length).await);
            let taken = taking.await.map_err(Error::Database)?;
            let operation = taken.ok_or(ResolveError::NotStalled)?.operation;
            let lease = engine::Lease::taken_over(store, Holder { id, attempt });
            let ended = match decision {
                Decision::Complete(writes, record) => lease.complete(None, writes, record).await,
                Decision::Free => lease.release(None).await,
                Decision::AskAgain => lease.retry_now().await,
            };
            let outcome = if ended.is_ok() { "written" } else { "not written" };
            tracing::info!(record = %id, operation, by, verdict = said, outcome, "resolved manually");
            ended.map_err(|_| ResolveError::NotWritten)
        })
        .await
    }
}
