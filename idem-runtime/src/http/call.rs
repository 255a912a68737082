//! One request to an annotated handler: its arguments are extracted, then its attempts begin.
//! The expansion of `#[idempotent]` drives it: arguments, scope, and for each attempt claim, body, settle.

use std::{future::Future, marker::PhantomData, pin::Pin, sync::Arc, time::Instant};

use axum::{
    body::Body,
    extract::{Extension, FromRef, FromRequest, MatchedPath, OriginalUri, Request},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use http::{header, request::Parts};

use crate::{
    app::Idempotency,
    backend::Backend,
    http::{
        effects::Effects,
        request_body::Recording,
        run::{Attempts, KeySource},
        tasks::Tasks,
    },
    model::message_id::EventId,
    model::{
        fingerprint::Subject,
        handler_options::Handler,
        scope::{Scope, ScopeId},
        stored_request::StoredRequest,
    },
};

type Extracting<T> = Pin<Box<dyn Future<Output = Result<T, Response>> + Send>>;

/// A request whose arguments have been extracted, in axum's own order, before anything looked at its key.
///
/// `H` is what a document says of the handler, a [`Declared`](crate::openapi::Declared); for the request it means nothing.
pub struct Call<E: Effects, T, H> {
    arguments: T,
    request: Extracted<E::Db, T>,
    declared: PhantomData<fn() -> H>,
}

/// What every attempt at a request shares.
pub(crate) struct Extracted<Db: Backend, T> {
    pub(crate) idempotency: Idempotency<Db>,
    pub(crate) parts: Parts,
    body: Bytes,
    extract: Arc<dyn Fn(Request) -> Extracting<T> + Send + Sync>,
    pub(crate) since: Instant,
}

/// A marker that keeps `Call`'s impl from overlapping axum's blanket `FromRequest` for the extractors of parts.
pub struct Via<M>(PhantomData<M>);

#[diagnostic::do_not_recommend]
impl<S, M, E, T, H> FromRequest<S, Via<M>> for Call<E, T, H>
where
    E: Effects,
    T: FromRequest<S, M> + Send + 'static,
    S: Clone + Send + Sync + 'static,
    Idempotency<E::Db>: FromRef<S>,
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
        let request = Extracted { idempotency, parts, body, extract, since };
        Ok(Self { arguments, request, declared: PhantomData })
    }
}

impl<E: Effects, T: Send + 'static, H> Call<E, T, H> {
    /// The extracted arguments, for the one that is the scope.
    pub fn arguments(&self) -> &T {
        &self.arguments
    }

    /// Splits the request into the task to run in and the attempts to run there.
    pub fn begin(self, handler: &'static Handler, scope: ScopeId) -> (Tasks, Attempts<E, T>) {
        self.begin_by(handler, scope, KeySource::Header)
    }

    /// The same for an event, whose id is the key.
    pub fn begin_event(self, handler: &'static Handler, scope: ScopeId, id: EventId) -> (Tasks, Attempts<E, T>) {
        self.begin_by(handler, scope, KeySource::Event(id.0))
    }

    fn begin_by(self, handler: &'static Handler, scope: ScopeId, key: KeySource) -> (Tasks, Attempts<E, T>) {
        let span = tracing::info_span!("idempotent", operation = handler.operation);
        let tasks = Tasks { tracker: self.request.idempotency.app.tasks.clone(), span };
        let policy = self.request.idempotency.app.policy.over(handler);
        (tasks, Attempts::new(self.arguments, self.request, handler, policy, scope, key))
    }
}

#[diagnostic::do_not_recommend]
impl<T: Scope> Scope for Extension<T> {
    fn scope_id(&self) -> ScopeId {
        self.0.scope_id()
    }
}

/// The identity that the scope's parameter gives. A function, so that a type without `Scope` is reported at the argument.
pub fn scope_of<S: Scope + ?Sized>(scope: &S) -> ScopeId {
    scope.scope_id()
}

impl<Db: Backend, T> Extracted<Db, T> {
    pub(crate) fn subject(&self) -> Subject<'_> {
        let original = self.parts.extensions.get::<OriginalUri>();
        let uri = original.map_or(&self.parts.uri, |OriginalUri(uri)| uri);
        Subject { parts: &self.parts, uri, body: &self.body }
    }

    /// The method and the route that the request came by; its path where it came by no route.
    pub(crate) fn endpoint(&self) -> (&str, &str) {
        let route = self.parts.extensions.get::<MatchedPath>().map_or(self.parts.uri.path(), MatchedPath::as_str);
        (self.parts.method.as_str(), route)
    }

    /// What a reconciler may be shown of it, encoded.
    pub(crate) fn stored(&self) -> Vec<u8> {
        let Subject { parts, uri, body } = self.subject();
        StoredRequest::encode(&parts.method, uri, parts.headers.get(header::CONTENT_TYPE), body)
    }

    /// Extracts the arguments anew, for the second attempt and those after it.
    pub(crate) async fn extract_again(&self) -> Result<T, Response> {
        (self.extract)(Request::from_parts(self.parts.clone(), Body::from(self.body.clone()))).await
    }
}
