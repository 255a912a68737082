//! The attempts at one request: what to claim, and the answer where the claim is refused.
//! One attempt is the rule; more follow only where the database asks for the whole transaction again.

use std::{error::Error as StdError, time::Duration};

use axum::response::Response;
use tokio::time::sleep;

use crate::{
    app::{
        problem::{Code, Problem},
        telemetry::{Answer, answered},
    },
    backend::Wanted,
    engine::Refusal,
    http::{
        call::Extracted,
        effects::{Asked, Effects},
        response::replay,
        settle::{Claim, Next},
    },
    model::{
        digest::Digest,
        fingerprint::{Comparison, Print},
        handler_options::{Handler, Policy, ScopeRule},
        idempotency_key::{Key, KeyError},
        options::{InProgress, KeyPresence},
        record::Unreadable,
        record_id::RecordId,
        scope::ScopeId,
    },
};

/// How many attempts a request gets, when its transactions lose against others.
const MOST_ATTEMPTS: u32 = 4;

/// Before the second attempt, doubled before each further one: time for whoever won to get out of the way.
const PAUSE: Duration = Duration::from_millis(10);

/// How long a second attempt waits where it would be told that the request is running: PostgreSQL reports a COMMIT that
/// it refuses just before it lets go of the transaction's locks, so what runs may be the first attempt's last moment.
const OWN_LOCKS: Duration = Duration::from_millis(200);

/// The attempts at one request: one, or a few if their transactions lose against others.
pub struct Attempts<E: Effects, T> {
    arguments: Option<T>,
    request: Extracted<E::Db, T>,
    handler: &'static Handler,
    policy: Policy,
    scope: ScopeId,
    key: KeySource,
    begun: u32,
}

/// Where a request's key is.
pub(crate) enum KeySource {
    /// In its `Idempotency-Key` header.
    Header,
    /// In the event that it delivers; `None` if that has no id.
    Event(Option<Vec<u8>>),
}

impl<E: Effects, T: Send + 'static> Attempts<E, T> {
    pub(crate) fn new(
        arguments: T,
        request: Extracted<E::Db, T>,
        handler: &'static Handler,
        policy: Policy,
        scope: ScopeId,
        key: KeySource,
    ) -> Self {
        Self { arguments: Some(arguments), request, handler, policy, scope, key, begun: 0 }
    }

    /// Claims the key for one execution of the body.
    ///
    /// # Errors
    /// The answer to send instead of executing it.
    pub async fn claim(&mut self) -> Result<(Claim<E>, T), Response> {
        let arguments = match self.arguments.take() {
            Some(arguments) => arguments,
            // What it rejects now it has let pass before: that is no answer to the request.
            None => self.request.extract_again().await.map_err(|_rejection| self.problem(Code::Contention))?,
        };
        let in_progress = match (self.begun, self.policy.in_progress) {
            (1.., InProgress::Reject) => InProgress::Wait(OWN_LOCKS),
            (_, chosen) => chosen,
        };
        if let Some(earlier) = self.begun.checked_sub(1) {
            sleep(PAUSE * 2_u32.pow(earlier)).await;
        }
        self.begun += 1;
        let wanted = self.wanted().map_err(|code| self.problem(code))?;
        let asked = Asked {
            idempotency: &self.request.idempotency,
            handler: self.handler,
            policy: self.policy,
            in_progress,
            request: self.handler.stores_request().then(|| self.request.stored()),
        };
        let held = E::claim(asked, wanted.as_ref()).await;
        let claim = Claim {
            held: held.map_err(|refusal| self.refused(refusal, wanted.as_ref()))?,
            idempotency: self.request.idempotency.clone(),
            operation: self.handler.operation,
            policy: self.policy,
            next: if self.begun < MOST_ATTEMPTS { Next::Attempt } else { Next::GiveUp },
            since: self.request.since,
        };
        Ok((claim, arguments))
    }

    /// The claim to make, if the request is to be protected.
    fn wanted(&self) -> Result<Option<Wanted>, Code> {
        let id = match &self.key {
            KeySource::Header => self.by_header()?,
            KeySource::Event(None) => return Err(Code::EventIdMissing),
            KeySource::Event(Some(id)) => Some(RecordId::of_event(self.scope()?, self.handler.operation, id)),
        };
        let (fingerprint, bytes) = if self.by_id_alone() {
            (Print::of_nothing(), Print::of_nothing())
        } else {
            let subject = self.request.subject();
            (subject.print(self.policy.fingerprint), subject.bytes())
        };
        Ok(id.map(|id| Wanted {
            id,
            fingerprint,
            bytes,
            operation: self.handler.operation,
            retention: self.policy.retention,
        }))
    }

    /// The digest of scope and header, if there is one and the method is protected.
    fn by_header(&self) -> Result<Option<RecordId>, Code> {
        let parts = &self.request.parts;
        if !self.policy.methods.protect(&parts.method) {
            return Ok(None);
        }
        let key = match Key::from_headers(&parts.headers, self.policy.key_format) {
            Ok(key) => key,
            Err(KeyError::Missing) if self.policy.key == KeyPresence::Optional => return Ok(None),
            Err(KeyError::Missing) => return Err(Code::KeyMissing),
            Err(KeyError::Malformed) => return Err(Code::KeyMalformed),
        };
        let scope = self.scope()?;
        Ok(Some(match self.handler.scope {
            ScopeRule::Account => RecordId::of_key(scope, key.as_bytes()),
            ScopeRule::AccountAndEndpoint => {
                let (method, route) = self.request.endpoint();
                RecordId::of_key_at_endpoint(scope, method.as_bytes(), route.as_bytes(), key.as_bytes())
            }
        }))
    }

    fn scope(&self) -> Result<&Digest, Code> {
        self.scope.digest().ok_or_else(|| {
            tracing::error!("`scope_id` gave an empty part: reject callers without an identity in the extractor");
            Code::ScopeEmpty
        })
    }

    fn refused(&self, refusal: Refusal, wanted: Option<&Wanted>) -> Response {
        match refusal {
            Refusal::Completed(record) => match self.compared(wanted, &record.fingerprint) {
                Comparison::Other => self.problem(Code::KeyReuse),
                Comparison::Unknown => self.unreadable(Unreadable::Fingerprint),
                Comparison::Same => match replay(record, self.policy.set_cookie, self.policy.replay) {
                    Ok(response) => {
                        answered(self.handler.operation, Answer::Replayed, self.request.since);
                        response
                    }
                    Err(unreadable) => self.unreadable(unreadable),
                },
            },
            Refusal::Held(held) => match self.compared(wanted, &held.fingerprint) {
                Comparison::Other => self.problem(Code::KeyReuse),
                Comparison::Unknown => self.unreadable(Unreadable::Fingerprint),
                Comparison::Same => self.in_progress(Some(held.remaining)),
            },
            Refusal::InProgress(remaining) => self.in_progress(remaining),
            Refusal::Mismatch => self.problem(Code::KeyReuse),
            Refusal::Unavailable => self.problem(Code::StoreUnavailable),
            Refusal::Schema => self.problem(Code::Schema),
            Refusal::Unreadable => self.problem(Code::RecordUnreadable),
        }
    }

    /// Whether equal keys are equal requests: of events, unless their handler says what else counts. Senders change what is
    /// around an id at every delivery.
    fn by_id_alone(&self) -> bool {
        matches!(self.key, KeySource::Event(_)) && !self.handler.compares()
    }

    fn compared(&self, wanted: Option<&Wanted>, stored: &[u8]) -> Comparison {
        if self.by_id_alone() {
            return Comparison::Same;
        }
        wanted.map_or(Comparison::Unknown, |wanted| {
            self.request.subject().compare(wanted.fingerprint, stored, self.policy.fingerprint)
        })
    }

    fn unreadable(&self, why: Unreadable) -> Response {
        tracing::error!(error = &why as &dyn StdError, "a stored response cannot be replayed");
        self.problem(Code::RecordUnreadable)
    }

    fn in_progress(&self, remaining: Option<Duration>) -> Response {
        answered(self.handler.operation, Answer::Problem(Code::InProgress), self.request.since);
        self.request.idempotency.app.answer(Problem::in_progress(remaining))
    }

    fn problem(&self, code: Code) -> Response {
        answered(self.handler.operation, Answer::Problem(code), self.request.since);
        self.request.idempotency.app.render(code, self.policy.mismatch)
    }
}
