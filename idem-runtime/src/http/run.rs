//! The attempts at one request: claim and settle, and the response if the claim is refused.
//! Usually there is one attempt; more follow only if the database asks for the transaction to run again.

use std::{future::Future, pin::Pin, time::Duration};

use axum::response::Response;
use tokio::time::sleep;

use super::{
    effects::{ClaimContext, Disposition, Effects},
    identity::{Identity, KeySource},
    outcome::Outcome,
    request::{ExtractedRequest, RequestContext},
    response::replay,
};
use crate::{
    app::{
        problem::{Code, Problem},
        telemetry::ResponseKind,
    },
    backend::{Cause, ClaimRequest, Session},
    engine::{Panicked, Plans, Refusal, SettleErrorKind, caught, log_unreadable},
    model::{
        fingerprint::Differences,
        options::InProgress,
        record::{Record, StoredRecord, Unreadable},
        scope::ScopeId,
        subject::Comparison,
    },
};

/// How many attempts a request gets at least if its transactions conflict with others. Short ones get more: as many as begin
/// within `database_timeout`.
const MIN_ATTEMPTS: u32 = 4;

/// The longest pause before the second attempt. It doubles before each further one, up to [`MAX_PAUSE`].
const PAUSE: Duration = Duration::from_millis(10);
const MAX_PAUSE: Duration = Duration::from_millis(640);

/// How long a second attempt waits instead of responding that the request is running. PostgreSQL reports a refused
/// COMMIT just before it releases the transaction's locks, so the locks may still be those of the first attempt.
const OWN_LOCKS: Duration = Duration::from_millis(200);

/// A future without its own type. Through that type rustc would prove `Send` for every handler, down to each statement.
pub(super) type Boxed<'f, T> = Pin<Box<dyn Future<Output = T> + Send + 'f>>;

/// The attempts at one request.
pub struct Attempts<E: Effects, T> {
    arguments: Option<T>,
    request: ExtractedRequest<T>,
    context: RequestContext<E::Db>,
    identity: Identity,
    /// How many attempts have started.
    started: u32,
    plans: Plans,
    /// How the running attempt writes its record.
    session: Session,
}

/// One attempt while its body runs. Dropping it rolls back, or with external effects leaves its record in progress.
pub struct RunningAttempt<E: Effects> {
    held: E::Held,
}

impl<E: Effects, T: Send + 'static> Attempts<E, T> {
    pub(super) fn new(
        arguments: T,
        request: ExtractedRequest<T>,
        context: RequestContext<E::Db>,
        scope: Result<ScopeId, Panicked>,
        key: KeySource,
    ) -> Self {
        Self {
            arguments: Some(arguments),
            request,
            context,
            identity: Identity { scope, key },
            started: 0,
            plans: Plans::Cached,
            session: Session::AsLeft,
        }
    }

    /// Claims the key for one execution of the body.
    ///
    /// # Errors
    /// The response to send instead of executing it.
    pub fn claim(&mut self) -> Boxed<'_, Result<(RunningAttempt<E>, T), Response>> {
        Box::pin(self.claim_next())
    }

    async fn claim_next(&mut self) -> Result<(RunningAttempt<E>, T), Response> {
        match caught(self.claim_uncaught()).await {
            Ok(claimed) => claimed,
            // A fingerprint function, or an extractor in a second attempt. If the key was claimed, the drop has freed it.
            Err(Panicked) => Err(self.problem(Code::HandlerPanicked)),
        }
    }

    async fn claim_uncaught(&mut self) -> Result<(RunningAttempt<E>, T), Response> {
        let arguments = match self.arguments.take() {
            Some(arguments) => arguments,
            // The extractors accepted this request before, so a rejection now is not its response.
            None => self.request.extract_again().await.map_err(|_rejection| self.problem(Code::Contention))?,
        };
        let in_progress = match (self.started, self.context.policy.in_progress) {
            (1.., InProgress::Reject) => InProgress::Wait(OWN_LOCKS),
            (_, chosen) => chosen,
        };
        if let Some(earlier) = self.started.checked_sub(1) {
            sleep(pause(earlier)).await;
        }
        self.started += 1;
        let claim = self.identity.claim_request(&self.request, &self.context).map_err(|code| self.problem(code))?;
        self.session = claim.as_ref().map_or(Session::AsLeft, |claim| claim.session);
        let context = ClaimContext {
            request: &self.context,
            in_progress,
            plans: self.plans,
            stored_request: self.context.handler.stores_request().then(|| self.request.encode()),
        };
        let held = E::claim(context, claim.as_ref()).await.map_err(|refusal| self.refused(refusal, claim.as_ref()))?;
        Ok((RunningAttempt { held }, arguments))
    }

    /// Settles the attempt. `Some`: the response to send; what it says is committed. `None`: run again.
    ///
    /// It takes the attempt, so nothing is settled twice, and returns the response, so none leaves before COMMIT.
    pub fn settle(&mut self, attempt: RunningAttempt<E>, outcome: Outcome) -> Boxed<'_, Option<Response>> {
        Box::pin(self.settle_held(attempt.held, outcome))
    }

    async fn settle_held(&mut self, held: E::Held, outcome: Outcome) -> Option<Response> {
        let (cause, panicked) = (outcome.cause(), outcome.0.is_err());
        self.plans = if cause == Cause::StalePlan { Plans::Anew } else { Plans::Cached };
        let disposition = Disposition::of(outcome, &self.context);
        let (response, kind) = match E::settle(held, disposition, &self.context).await {
            Ok((response, kind)) => (response, if panicked { kind.of_panic() } else { kind }),
            Err(unsettled) if unsettled.kind == SettleErrorKind::RunAgain && self.may_run_again() => {
                return None;
            }
            Err(unsettled) if unsettled.kind == SettleErrorKind::TableHidden && self.session == Session::AsLeft => {
                self.context.idempotency.app.sessions.restore(self.context.handler.operation);
                return None;
            }
            Err(unsettled) => {
                let code = E::code(match unsettled.kind {
                    // The database ended the transaction, not the handler.
                    SettleErrorKind::TransactionEnded if cause == Cause::Passing => Code::StoreUnavailable,
                    kind => kind.into(),
                });
                (self.context.problem(code), ResponseKind::Problem(code))
            }
        };
        self.context.report(kind);
        Some(response)
    }

    fn may_run_again(&self) -> bool {
        let budget = self.context.idempotency.app.engine.store.timeout;
        self.started < MIN_ATTEMPTS || self.context.elapsed() < budget
    }

    /// The response to a request whose body does not run.
    fn refused(&self, refusal: Refusal, claim: Option<&ClaimRequest>) -> Response {
        // Without a claim there is no record to compare with.
        let compare = |fingerprint: &[u8]| {
            claim.map(|claim| (claim, self.identity.compare(&self.request, &self.context, claim, fingerprint)))
        };
        match refusal {
            Refusal::Completed(StoredRecord { operation, record }) => match compare(&record.fingerprint) {
                Some((claim, Comparison::Same)) => self.replay(claim, record, &operation),
                Some((claim, Comparison::Unknown)) => self.unreadable(claim, Unreadable::Fingerprint),
                Some((_, Comparison::Other(differences))) => self.mismatch(differences),
                None => self.mismatch(Differences::UNKNOWN),
            },
            Refusal::InProgressRecord(record) => match compare(&record.fingerprint) {
                Some((_, Comparison::Same)) => self.in_progress(Some(record.remaining)),
                Some((claim, Comparison::Unknown)) => self.unreadable(claim, Unreadable::Fingerprint),
                Some((_, Comparison::Other(differences))) => self.mismatch(differences),
                None => self.mismatch(Differences::UNKNOWN),
            },
            Refusal::InProgress(remaining) => self.in_progress(remaining),
            Refusal::Mismatch(differences) => self.mismatch(differences),
            Refusal::Store(error) => self.problem(error.kind.into()),
        }
    }

    fn replay(&self, claim: &ClaimRequest, record: Record, operation: &str) -> Response {
        if operation != self.context.handler.operation {
            tracing::warn!(
                operation = self.context.handler.operation,
                recorded = operation,
                "a replay has the response of another operation: if two services share the table, set `Builder::namespace`"
            );
        }
        match replay(&claim.id, record, self.context.policy.set_cookie, self.context.handler.replays()) {
            Ok(response) => {
                self.context.report(ResponseKind::Replayed);
                response
            }
            Err(unreadable) => self.unreadable(claim, unreadable),
        }
    }

    fn unreadable(&self, claim: &ClaimRequest, why: Unreadable) -> Response {
        log_unreadable(&claim.id, &why);
        self.problem(Code::RecordUnreadable)
    }

    fn in_progress(&self, remaining: Option<Duration>) -> Response {
        self.context.report(ResponseKind::Problem(Code::InProgress));
        self.context.idempotency.app.respond(Problem::in_progress(remaining))
    }

    fn mismatch(&self, differences: Differences) -> Response {
        self.context.report(ResponseKind::Problem(Code::KeyReuse));
        self.context.idempotency.app.respond(Problem::mismatch(self.context.policy.mismatch, differences))
    }

    fn problem(&self, code: Code) -> Response {
        self.context.report(ResponseKind::Problem(code));
        self.context.problem(code)
    }
}

impl<E: Effects> RunningAttempt<E> {
    /// The handler's `&mut` parameter. A transaction becomes a connection by deref coercion, if one is taken.
    pub fn param(&mut self) -> &mut E::Param {
        E::param(&mut self.held)
    }
}

/// A random part of the longest pause ("full jitter"): those that met once do not meet again.
/// <https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/>
fn pause(earlier: u32) -> Duration {
    let longest = (PAUSE * 2_u32.pow(earlier.min(6))).min(MAX_PAUSE);
    let mut random = [0; 4];
    match getrandom::fill(&mut random) {
        Ok(()) => longest.mul_f64(f64::from(u32::from_be_bytes(random)) / f64::from(u32::MAX)),
        Err(_) => longest,
    }
}
