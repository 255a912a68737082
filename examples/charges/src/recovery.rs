//! Decides stalled attempts. The reconcilers ask the card network, and the client gets the response that it missed.
//! No handler runs here. The rows that are written through the attempt commit together with the verdict.

use axum::response::IntoResponse as _;
use idem_runtime::{
    Attempt,
    recovery::{BoxError, Reconciler, StalledAttempt, Verdict},
};

use super::{
    Db,
    handlers::{CHARGE, record},
};
use crate::{
    error::ChargeError,
    network::{Charged, Network, NetworkError},
    request::NewCharge,
};

/// Looks the charge up by the derived key. The stalled attempt sent the same key.
pub(crate) struct ByKey(pub(crate) Network);

impl Reconciler<Db> for ByKey {
    async fn reconcile(&self, stalled: &StalledAttempt, attempt: &mut Attempt<Db>) -> Result<Verdict, BoxError> {
        let key = attempt.key(CHARGE).to_string();
        decide(self.0.find_by_key(&key).await, stalled, attempt).await
    }
}

/// Looks the charge up by its reference, at a network without idempotency keys.
pub(crate) struct ByReference(pub(crate) Network);

impl Reconciler<Db> for ByReference {
    async fn reconcile(&self, stalled: &StalledAttempt, attempt: &mut Attempt<Db>) -> Result<Verdict, BoxError> {
        let reference = attempt.key(CHARGE).to_string();
        decide(self.0.find_by_reference(&reference).await, stalled, attempt).await
    }
}

async fn decide(
    found: Result<Option<Charged>, NetworkError>,
    stalled: &StalledAttempt,
    attempt: &mut Attempt<Db>,
) -> Result<Verdict, BoxError> {
    match found {
        Ok(Some(charged)) => completed(&charged, stalled, attempt).await,
        // The call of the stalled attempt may still be in flight. A retry with the same key meets that charge, but the
        // client may never retry: then nobody records it. Without keys, a retry charges a second time. So "no charge"
        // counts only at the second lookup. The backoff before it must be longer than a call can take.
        Ok(None) if stalled.tries() == 0 => Ok(Verdict::Unknown),
        Ok(None) => Ok(Verdict::NeverExecuted),
        Err(error) => {
            let (error, operation): (&dyn std::error::Error, _) = (&error, stalled.operation());
            tracing::warn!(error, operation, tries = stalled.tries(), "the lookup at the card network failed");
            Ok(Verdict::Unknown)
        }
    }
}

async fn completed(
    charged: &Charged,
    stalled: &StalledAttempt,
    attempt: &mut Attempt<Db>,
) -> Result<Verdict, BoxError> {
    let request = stalled.request().ok_or("the record has no request: set `store_request` on the handler")?;
    let new: NewCharge = serde_json::from_slice(request.body())?;
    if !charged.is(&new) {
        return Err("the card network has a different charge under this key: a person must decide".into());
    }
    match record(attempt, &new, charged).await {
        Ok(response) => Ok(Verdict::completed(response)),
        Err(declined @ ChargeError::CardDeclined) => Ok(Verdict::completed(declined.into_response())),
        Err(error) => Err(error.into()),
    }
}
