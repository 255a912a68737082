//! Stalled attempts, and what decides them: handlers that stay at a gate, with a lease that the test ends in the
//! database, and reconcilers whose verdict the test chooses.

use std::sync::Arc;

use axum::{Router, body::Bytes, extract::State, http::StatusCode, routing::post};
use idem_runtime::{
    Attempt, idempotent,
    recovery::{BoxError, Reconciler, Recovery, StalledAttempt, SweepReport, Verdict},
};
use idem_tests::{gate::Gate, http::RawResponse};

use super::{Db, LAPSE, app::*};

/// Calls the network, then stays at the gate. Most tests do not wait for its response.
#[idempotent(scope = account, effects = external, store_request, operation = "create_charge", retention = "48h")]
pub async fn charge(
    State(app): State<App>,
    account: Account,
    attempt: &mut Attempt<Db>,
    body: Bytes,
) -> (StatusCode, &'static str) {
    app.runs.begin();
    if body != "before the call" {
        app.network.charge(attempt.key("charge"));
    }
    app.gate.pass().await;
    write(attempt.transaction().await.unwrap(), &account).await;
    (StatusCode::CREATED, "by the attempt")
}

#[idempotent(scope = account, effects = external)]
pub async fn other(State(app): State<App>, account: Account, attempt: &mut Attempt<Db>) -> StatusCode {
    app.runs.begin();
    app.network.charge(attempt.key("charge"));
    app.gate.pass().await;
    write(attempt.transaction().await.unwrap(), &account).await;
    StatusCode::CREATED
}

pub fn routes() -> Router<App> {
    Router::new().route("/charge", post(charge)).route("/other", post(other)).route("/pay", post(pay))
}

pub type Verdicts = dyn Fn(&StalledAttempt, &App) -> Result<Verdict, BoxError> + Send + Sync;

/// Asks the network, writes the row that the handler would have written, and calls a function of the test.
pub struct Ask {
    app: App,
    gate: Option<Gate>,
    verdict: Arc<Verdicts>,
}

impl Reconciler<Db> for Ask {
    async fn reconcile(&self, dead: &StalledAttempt, attempt: &mut Attempt<Db>) -> Result<Verdict, BoxError> {
        if let Some(gate) = &self.gate {
            gate.pass().await;
        }
        write(attempt.transaction().await?, &Account("alice".to_owned())).await;
        assert_eq!(attempt.operation(), dead.operation());
        (self.verdict)(dead, &self.app)
    }
}

/// Finds out by the step key.
pub struct ByKey(pub App);

impl Reconciler<Db> for ByKey {
    async fn reconcile(&self, _: &StalledAttempt, attempt: &mut Attempt<Db>) -> Result<Verdict, BoxError> {
        if !self.0.network.has(attempt.key("charge")) {
            return Ok(Verdict::NeverExecuted);
        }
        write(attempt.transaction().await?, &Account("alice".to_owned())).await;
        Ok(Verdict::completed((StatusCode::CREATED, "by the recovery")))
    }
}

pub fn found() -> Verdict {
    Verdict::completed((StatusCode::CREATED, "by the recovery"))
}

pub fn swept(change: impl FnOnce(&mut SweepReport)) -> SweepReport {
    let mut swept = SweepReport::default();
    change(&mut swept);
    swept
}

impl Service {
    /// A recovery that gives a verdict about `create_charge`.
    pub fn recovery(
        &self,
        verdict: impl Fn(&StalledAttempt, &App) -> Result<Verdict, BoxError> + Send + Sync + 'static,
    ) -> Recovery<Db> {
        let ask = Ask { app: self.app.clone(), gate: None, verdict: Arc::new(verdict) };
        self.app.idempotency.recovery().reconciler("create_charge", ask)
    }

    /// A recovery whose reconciler stops at the gate.
    pub fn gated(
        &self,
        gate: &Gate,
        verdict: impl Fn(&StalledAttempt, &App) -> Result<Verdict, BoxError> + Send + Sync + 'static,
    ) -> Recovery<Db> {
        let ask = Ask { app: self.app.clone(), gate: Some(gate.clone()), verdict: Arc::new(verdict) };
        self.app.idempotency.recovery().reconciler("create_charge", ask)
    }

    /// Stalled attempts: they called the network, and stay at the gate with an expired lease.
    pub async fn dead(&self, path: &'static str, keys: &[&'static str]) -> Vec<tokio::task::JoinHandle<RawResponse>> {
        let mut attempts = Vec::new();
        for key in keys {
            attempts.push(self.posting(path, key, "1"));
            self.app.gate.entered().await;
        }
        self.execute(LAPSE).await;
        attempts
    }

    pub async fn number(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql).fetch_one(&self.pool).await.unwrap()
    }
}
