//! What became of attempts that died: the card network is asked, and what it says is what the client is told.
//! No handler runs here. What is written through the attempt commits together with the verdict.

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
    error::AppError,
    extract::NewCharge,
    network::{Charged, Network, NetworkError},
};

/// Asks by the derived key, which the dead attempt sent along.
pub(crate) struct ByKey(pub(crate) Network);

impl Reconciler<Db> for ByKey {
    async fn reconcile(&self, dead: &StalledAttempt, attempt: &mut Attempt<Db>) -> Result<Verdict, BoxError> {
        let key = attempt.key(CHARGE).to_string();
        match self.0.find_by_key(&key).await {
            Ok(Some(charged)) => completed(dead, attempt, &charged).await,
            // The dead attempt's call may still be under way. A retry would meet it, since it sends the same key; but the
            // client may never retry, and then that charge would be in nobody's books. So nothing is believed only when it
            // is said twice, a back-off apart: wait longer than a call can take.
            Ok(None) if dead.tries() == 0 => Ok(Verdict::Unknown),
            Ok(None) => Ok(Verdict::NeverExecuted),
            Err(error) => Ok(unknown(dead, &error)),
        }
    }
}

/// Asks by the reference, at a network that honours no keys.
pub(crate) struct ByReference(pub(crate) Network);

impl Reconciler<Db> for ByReference {
    async fn reconcile(&self, dead: &StalledAttempt, attempt: &mut Attempt<Db>) -> Result<Verdict, BoxError> {
        let reference = attempt.key(CHARGE).to_string();
        match self.0.find_by_reference(&reference).await {
            Ok(Some(charged)) => completed(dead, attempt, &charged).await,
            // As above. Here a retry would not even meet it: see `create_legacy_charge` for what remains.
            Ok(None) if dead.tries() == 0 => Ok(Verdict::Unknown),
            Ok(None) => Ok(Verdict::NeverExecuted),
            Err(error) => Ok(unknown(dead, &error)),
        }
    }
}

async fn completed(dead: &StalledAttempt, attempt: &mut Attempt<Db>, charged: &Charged) -> Result<Verdict, BoxError> {
    let request = dead.request().ok_or("the record has no request: is `store_request` gone from the handler?")?;
    let new: NewCharge = serde_json::from_slice(request.body())?;
    if !charged.is(&new) {
        return Err("the card network has another charge under this key: a person must decide".into());
    }
    match record(attempt, &new, charged).await {
        Ok(response) => Ok(Verdict::completed(response)),
        Err(declined @ AppError::CardDeclined) => Ok(Verdict::completed(declined.into_response())),
        Err(error) => Err(error.into()),
    }
}

/// Asked again later.
fn unknown(dead: &StalledAttempt, error: &NetworkError) -> Verdict {
    let error: &dyn std::error::Error = error;
    tracing::warn!(error, operation = dead.operation(), asked = dead.tries(), "the card network was no help");
    Verdict::Unknown
}
