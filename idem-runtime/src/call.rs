//! One request to an annotated handler, from its extraction to its answer.
//! The expansion of `#[idempotent]` drives it: arguments, then for each attempt claim, body, settle.

use std::{
    error::Error as StdError,
    future::Future,
    marker::PhantomData,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Instant,
};

use axum::{
    body::Body,
    extract::{FromRef, FromRequest, OriginalUri, Request},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures_util::FutureExt;
use http::request::Parts;
use sqlx::Transaction;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;
use tracing::{Instrument, Span};

use crate::{
    Idempotency,
    backend::{Backend, Wanted},
    digest::Digest,
    engine::{self, Ending, Settled, Turned},
    fingerprint::{Comparison, Subject},
    key::{Key, KeyError},
    observe::{Answer, answered},
    policy::{Handler, KeyPresence, OnServerError, Policy, ScopeRule},
    problem::{Code, Problem},
    record::Unreadable,
    recording::Recording,
    response::{Settle, Whole, replay},
    scope::{Scope, ScopeId},
};

/// How often a body may run for one request, when its transactions lose against others.
const MOST_RUNS: u32 = 4;

type Extracting<T> = Pin<Box<dyn Future<Output = Result<T, Response>> + Send>>;

/// A request whose arguments have been extracted, in axum's own order, before anything looked at its key.
pub struct Call<Db: Backend, T> {
    arguments: T,
    request: Extracted<Db, T>,
}

/// What every attempt at a request shares.
struct Extracted<Db: Backend, T> {
    idempotency: Idempotency<Db>,
    parts: Parts,
    body: Bytes,
    /// Extracts the arguments anew, for the second attempt and those after it.
    extract: Arc<dyn Fn(Request) -> Extracting<T> + Send + Sync>,
    since: Instant,
}

/// Keeps `Call`'s extraction apart from axum's blanket one for the extractors of parts.
pub struct Via<M>(PhantomData<M>);

#[diagnostic::do_not_recommend]
impl<S, M, Db, T> FromRequest<S, Via<M>> for Call<Db, T>
where
    Db: Backend,
    T: FromRequest<S, M> + Send + 'static,
    S: Clone + Send + Sync + 'static,
    Idempotency<Db>: FromRef<S>,
{
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        let since = Instant::now();
        let idempotency = Idempotency::from_ref(state);
        let state = state.clone();
        let extract = Arc::new(move |request| -> Extracting<T> {
            let state = state.clone();
            Box::pin(async move { T::from_request(request, &state).await.map_err(IntoResponse::into_response) })
        });
        let (parts, body) = request.into_parts();
        let recording = Recording::of(body);
        let arguments = extract(Request::from_parts(parts.clone(), recording.body())).await?;
        let body = recording.finish(&parts).await?;
        Ok(Self { arguments, request: Extracted { idempotency, parts, body, extract, since } })
    }
}

impl<Db: Backend, T: Send + 'static> Call<Db, T> {
    /// The extracted arguments, for the one that is the scope.
    pub fn arguments(&self) -> &T {
        &self.arguments
    }

    /// Gets ready to run: where, and what.
    pub fn begin(self, handler: &'static Handler, scope: ScopeId) -> (Tasks, Attempts<Db, T>) {
        let span = tracing::info_span!("idempotent", operation = handler.operation);
        let tasks = Tasks { tracker: self.request.idempotency.app.tasks.clone(), span };
        let policy = self.request.idempotency.app.policy.over(handler);
        let attempts =
            Attempts { arguments: Some(self.arguments), request: self.request, handler, policy, scope, runs: 0 };
        (tasks, attempts)
    }
}

/// What a handler's parameter is the scope by.
pub fn scope_of<S: Scope + ?Sized>(scope: &S) -> ScopeId {
    scope.scope_id()
}

/// Where attempts run: in tasks of their own, which a client's disconnect does not stop and `drain` waits for.
pub struct Tasks {
    tracker: TaskTracker,
    span: Span,
}

impl Tasks {
    /// Starts the attempts. The future's type does not show in what comes back, so that a body that is not `Send` is
    /// reported here and not at the route again.
    pub fn run(self, attempts: impl Future<Output = Response> + Send + 'static) -> Finishing {
        Finishing(self.tracker.spawn(attempts.instrument(self.span)))
    }
}

/// Attempts that run to their end, awaited or not.
pub struct Finishing(JoinHandle<Response>);

impl Future for Finishing {
    type Output = Response;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Response> {
        Poll::Ready(match ready!(Pin::new(&mut self.0).poll(context)) {
            Ok(response) => response,
            Err(failed) => match failed.try_into_panic() {
                // Not the body's panic, which is caught and stored: the application's own renderer.
                Ok(panic) => resume_unwind(panic),
                // The runtime is shutting down.
                Err(_) => Problem::new(Code::OutcomeUnknown).into_response(),
            },
        })
    }
}

/// The attempts at one request: one, or a few if their transactions lose against others.
pub struct Attempts<Db: Backend, T> {
    arguments: Option<T>,
    request: Extracted<Db, T>,
    handler: &'static Handler,
    policy: Policy,
    scope: ScopeId,
    runs: u32,
}

impl<Db: Backend, T: Send + 'static> Attempts<Db, T> {
    /// Claims the key for one run of the body.
    ///
    /// # Errors
    /// The answer to send instead of running.
    pub async fn claim(&mut self) -> Result<(Claim<Db>, T), Response> {
        let arguments = match self.arguments.take() {
            Some(arguments) => arguments,
            None => (self.request.extract)(self.request.again()).await?,
        };
        let claimed = match self.wanted() {
            Ok(wanted) => self.claim_or_open(wanted).await,
            Err(code) => Err(self.problem(code)),
        };
        self.runs += 1;
        Ok((claimed?, arguments))
    }

    async fn claim_or_open(&self, wanted: Option<Wanted>) -> Result<Claim<Db>, Response> {
        let engine = &self.request.idempotency.app.engine;
        let claimed = match &wanted {
            Some(wanted) => engine.claim(wanted, self.policy.isolation, self.policy.in_progress).await,
            None => engine.open(self.policy.isolation).await,
        };
        Ok(Claim {
            open: claimed.map_err(|turned| self.turned(turned))?,
            idempotency: self.request.idempotency.clone(),
            operation: self.handler.operation,
            policy: self.policy,
            fingerprint: wanted.map(|wanted| wanted.fingerprint.to_bytes()),
            last: if self.runs + 1 < MOST_RUNS { Last::No } else { Last::Yes },
            since: self.request.since,
        })
    }

    /// The claim to make, if the request is to be protected.
    fn wanted(&self) -> Result<Option<Wanted>, Code> {
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
        let Some(scope) = self.scope.digest() else {
            tracing::error!("a scope with an empty part was refused");
            return Err(Code::ScopeEmpty);
        };
        let id = match self.handler.scope {
            ScopeRule::Account => Digest::of("key", [scope.as_bytes(), key.as_bytes()]),
            ScopeRule::AccountAndEndpoint => {
                let operation = self.handler.operation.as_bytes();
                Digest::of("key at endpoint", [scope.as_bytes(), operation, key.as_bytes()])
            }
        };
        Ok(Some(Wanted {
            id,
            fingerprint: self.request.subject().print(self.policy.fingerprint),
            operation: self.handler.operation,
            retention: self.policy.retention,
        }))
    }

    fn turned(&self, turned: Turned) -> Response {
        match turned {
            Turned::Completed(record) => {
                match self.request.subject().compare(&record.fingerprint, self.policy.fingerprint) {
                    Comparison::Other => self.problem(Code::KeyReuse),
                    Comparison::Unknown => self.unreadable(Unreadable::Fingerprint),
                    Comparison::Same => match replay(record, self.policy.set_cookie) {
                        Ok(response) => {
                            answered(self.handler.operation, Answer::Replayed, self.request.since);
                            response
                        }
                        Err(unreadable) => self.unreadable(unreadable),
                    },
                }
            }
            Turned::InProgress => self.problem(Code::InProgress),
            Turned::Mismatch => self.problem(Code::KeyReuse),
            Turned::Unavailable => self.problem(Code::StoreUnavailable),
            Turned::Schema => self.problem(Code::Schema),
        }
    }

    fn unreadable(&self, why: Unreadable) -> Response {
        tracing::error!(error = &why as &dyn StdError, "a stored response cannot be replayed");
        self.problem(Code::RecordUnreadable)
    }

    fn problem(&self, code: Code) -> Response {
        answered(self.handler.operation, Answer::Problem(code), self.request.since);
        self.request.idempotency.app.render(code, self.policy.mismatch)
    }
}

impl<Db: Backend, T> Extracted<Db, T> {
    fn subject(&self) -> Subject<'_> {
        let original = self.parts.extensions.get::<OriginalUri>();
        let uri = original.map_or(&self.parts.uri, |OriginalUri(uri)| uri);
        Subject { parts: &self.parts, uri, body: &self.body }
    }

    fn again(&self) -> Request {
        Request::from_parts(self.parts.clone(), Body::from(self.body.clone()))
    }
}

/// What a body's panic leaves.
pub struct Panicked;

/// Runs a body; its panic is an outcome.
///
/// # Errors
/// [`Panicked`] if it did.
pub async fn caught<F: Future>(body: F) -> Result<F::Output, Panicked> {
    AssertUnwindSafe(body).catch_unwind().await.map_err(|_| Panicked)
}

/// Whether the database said that the transaction may simply be run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transient {
    /// A serialization failure or a deadlock is at the root of the error that the body returned.
    Yes,
    /// Not known to be.
    No,
}

/// Looks for a database error behind what a body returned: `(&&Probe(&result)).transient()`.
///
/// Method look-up takes the first that fits: `ByError` if the body returned a `Result` whose error is an `Error`,
/// `ByNothing` for everything else. The return types of handlers need no bound for it.
pub struct Probe<'r, R>(pub &'r Result<R, Panicked>);

/// See [`Probe`].
pub trait ByError {
    /// Follows the error's sources.
    fn transient(&self) -> Transient;
}

impl<T, E: StdError + 'static> ByError for &Probe<'_, Result<T, E>> {
    fn transient(&self) -> Transient {
        let Ok(Err(error)) = self.0 else { return Transient::No };
        let mut sources = std::iter::successors(Some(error as &(dyn StdError + 'static)), |&error| error.source());
        let database = sources.find_map(|error| error.downcast_ref::<sqlx::Error>());
        if database.is_some_and(crate::backend::is_transient) { Transient::Yes } else { Transient::No }
    }
}

/// See [`Probe`].
pub trait ByNothing {
    /// Says no.
    fn transient(&self) -> Transient;
}

impl<R> ByNothing for Probe<'_, R> {
    fn transient(&self) -> Transient {
        Transient::No
    }
}

/// What a body came to, owned: nothing in it borrows the transaction.
pub struct Outcome(Result<(Response, Transient), Panicked>);

/// Makes a response of what a body returned; a panic on the way is the body's too.
pub fn outcome<R: IntoResponse>(result: Result<R, Panicked>, transient: Transient) -> Outcome {
    let response =
        result.and_then(|returned| catch_unwind(AssertUnwindSafe(|| returned.into_response())).map_err(|_| Panicked));
    Outcome(response.map(|response| (response, transient)))
}

/// One run's claim. `settle` takes it, so it cannot be settled twice; dropped, it rolls back.
pub struct Claim<Db: Backend> {
    open: engine::Claim<Db>,
    idempotency: Idempotency<Db>,
    operation: &'static str,
    policy: Policy,
    /// Of a protected request.
    fingerprint: Option<Vec<u8>>,
    last: Last,
    since: Instant,
}

/// Whether this run is the last that the request gets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    No,
    Yes,
}

impl<Db: Backend> Claim<Db> {
    /// The open transaction; a handler that takes the connection gets it by deref coercion.
    pub fn transaction(&mut self) -> &mut Transaction<'static, Db> {
        &mut self.open.transaction
    }

    /// Ends the claim. The response is to be sent: what it says is committed. `None`: run again.
    pub async fn settle(self, outcome: Outcome) -> Option<Response> {
        let Decision { ending, response, answer } = self.decide(outcome).await;
        let settled = self.open.settle(ending).await;
        let failed = match settled {
            Settled::Done => {
                answered(self.operation, answer, self.since);
                return Some(response);
            }
            Settled::Again if self.last == Last::No => return None,
            Settled::Again => Code::Contention,
            Settled::Aborted => Code::TransactionAborted,
            Settled::Ended => {
                tracing::error!("the handler ended its transaction with SQL of its own; its answer was not stored");
                Code::TransactionEnded
            }
            Settled::Unavailable => Code::StoreUnavailable,
            Settled::Schema => Code::Schema,
            Settled::Unknown => Code::OutcomeUnknown,
        };
        answered(self.operation, Answer::Problem(failed), self.since);
        Some(self.idempotency.app.render(failed, self.policy.mismatch))
    }

    /// How the claim is to end for what the body came to.
    async fn decide(&self, outcome: Outcome) -> Decision {
        let (response, settle, failed) = match outcome.0 {
            Ok((_, Transient::Yes)) => return Decision::again(),
            Ok((response, Transient::No)) => {
                let settle = response.extensions().get().copied();
                let failed = response.status().is_server_error();
                (response, settle, failed)
            }
            // Also where the application renders it with another status.
            Err(Panicked) => (self.idempotency.app.render(Code::HandlerPanicked, self.policy.mismatch), None, true),
        };
        let keep = match settle {
            Some(Settle::RunAgain) => return Decision::again(),
            Some(Settle::NothingExecuted) => return Decision::new(Ending::Free, response, Answer::Freed),
            _ if failed && self.policy.on_server_error == OnServerError::Release => {
                return Decision::new(Ending::Free, response, Answer::Freed);
            }
            Some(Settle::DropWrites) => Writes::Drop,
            None if failed || response.status().is_client_error() => Writes::Drop,
            Some(Settle::KeepWrites) | None => Writes::Keep,
        };
        self.end(response, keep).await
    }

    /// The end of a claim whose answer is to be stored, if the request is protected.
    async fn end(&self, response: Response, writes: Writes) -> Decision {
        let Some(fingerprint) = &self.fingerprint else {
            let ending = if writes == Writes::Keep { Ending::Keep(None) } else { Ending::Free };
            return Decision::new(ending, response, Answer::Unprotected);
        };
        match Whole::of(response, self.policy.max_response).await {
            Ok(whole) => {
                let record = whole.record(fingerprint.clone(), self.policy.set_cookie);
                let ending = if writes == Writes::Keep { Ending::Keep(Some(record)) } else { Ending::Undo(record) };
                Decision::new(ending, whole.into_response(), Answer::Stored)
            }
            Err(code) => {
                let response = self.idempotency.app.render(code, self.policy.mismatch);
                Decision::new(Ending::Free, response, Answer::Problem(code))
            }
        }
    }
}

/// What is to become of a run, and what is sent if that succeeds.
struct Decision {
    ending: Ending,
    response: Response,
    answer: Answer,
}

impl Decision {
    fn new(ending: Ending, response: Response, answer: Answer) -> Self {
        Self { ending, response, answer }
    }

    /// Roll back and run again. Nothing is sent.
    fn again() -> Self {
        Self::new(Ending::Again, Response::default(), Answer::Freed)
    }
}

/// What is to become of what the handler wrote.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writes {
    Keep,
    Drop,
}
