//! The parameter of the function that axum calls: it extracts the handler's own parameters and starts the attempts.
//! The expansion of `#[idempotent]` calls it: arguments, scope, then for each attempt claim, body, settle.

use std::{marker::PhantomData, sync::Arc, time::Instant};

use axum::{
    extract::{Extension, FromRef, FromRequest, Request},
    response::{IntoResponse, Response},
};

use super::{
    effects::Effects,
    identity::KeySource,
    request::{ExtractedRequest, Extracting, RequestContext},
    request_body::BufferedBody,
    run::Attempts,
    tasks::Tasks,
};
use crate::{
    app::Idempotency,
    backend::Backend,
    engine::Panicked,
    model::{
        handler_options::HandlerMarker,
        message_id::OwnedMessageId,
        scope::{Scope, ScopeId},
    },
};

/// A request whose arguments are extracted, in axum's order, before its key is read.
///
/// `R` is what the handler returns, for OpenAPI documents. `H` stands for the handler.
pub struct Call<E: Effects, T, R, H> {
    arguments: T,
    request: ExtractedRequest<T>,
    idempotency: Idempotency<E::Db>,
    started_at: Instant,
    handler: PhantomData<fn() -> (R, H)>,
}

/// A marker that keeps `Call`'s impl from overlapping axum's blanket `FromRequest` for `FromRequestParts`.
pub struct Via<M>(PhantomData<M>);

#[diagnostic::do_not_recommend]
impl<S, M, E, T, R, H> FromRequest<S, Via<M>> for Call<E, T, R, H>
where
    E: Effects,
    T: FromRequest<S, M> + Send + 'static,
    S: Clone + Send + Sync + 'static,
    Idempotency<E::Db>: FromRef<S>,
{
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        let started_at = Instant::now();
        let idempotency = Idempotency::from_ref(state);
        let state = state.clone();
        let extract = Arc::new(move |request| -> Extracting<T> {
            let state = state.clone();
            Box::pin(async move { T::from_request(request, &state).await.map_err(IntoResponse::into_response) })
        });
        let (parts, body) = request.into_parts();
        let buffered = BufferedBody::of(body);
        let arguments = extract(Request::from_parts(parts.clone(), buffered.body())).await?;
        let body = buffered.finish(&parts).await?;
        let request = ExtractedRequest { parts, body, extract };
        Ok(Self { arguments, request, idempotency, started_at, handler: PhantomData })
    }
}

impl<E: Effects, T: Send + 'static, R, H: HandlerMarker> Call<E, T, R, H> {
    /// The extracted arguments; one of them is the scope.
    pub fn arguments(&self) -> &T {
        &self.arguments
    }

    /// Splits the request into the task to run in and the attempts to run there.
    pub fn begin(self, scope: Result<ScopeId, Panicked>) -> (Tasks, Attempts<E, T>) {
        self.begin_by(scope, KeySource::Header)
    }

    /// The same for an event, whose id is the key.
    pub fn begin_event(
        self,
        scope: Result<ScopeId, Panicked>,
        id: Result<OwnedMessageId, Panicked>,
    ) -> (Tasks, Attempts<E, T>) {
        self.begin_by(scope, KeySource::Event(id))
    }

    fn begin_by(self, scope: Result<ScopeId, Panicked>, key: KeySource) -> (Tasks, Attempts<E, T>) {
        let handler = const { &H::OPTIONS };
        let span = tracing::info_span!("idempotent", operation = handler.operation);
        let app = &self.idempotency.app;
        let in_task = app.in_task.clone().map(|in_task| (in_task, self.request.parts.clone()));
        let tasks = Tasks { tracker: app.tasks.clone(), span, in_task };
        let context = RequestContext::new(self.idempotency, handler, self.started_at);
        (tasks, Attempts::new(self.arguments, self.request, context, scope, key))
    }
}

/// A state in an `Arc`. The application could not write this itself: neither the trait nor `Arc` is its own.
#[diagnostic::do_not_recommend]
impl<S, Db: Backend> FromRef<Arc<S>> for Idempotency<Db>
where
    Self: FromRef<S>,
{
    fn from_ref(state: &Arc<S>) -> Self {
        Self::from_ref(&**state)
    }
}

#[diagnostic::do_not_recommend]
impl<T: Scope> Scope for Extension<T> {
    fn scope_id(&self) -> ScopeId {
        self.0.scope_id()
    }
}

/// The identity of the scope's parameter. A function, so that a type without `Scope` is reported at the argument.
pub fn scope_of<S: Scope + ?Sized>(scope: &S) -> ScopeId {
    scope.scope_id()
}
