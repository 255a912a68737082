//! What the attempts at one request share: the extracted request, and the context in which it runs.
//! Each attempt after the first extracts its arguments again.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    body::Body,
    extract::{MatchedPath, OriginalUri, Request},
    response::Response,
};
use bytes::Bytes;
use http::{Uri, header, request::Parts};

use crate::{
    app::{
        Idempotency,
        problem::Code,
        telemetry::{ResponseKind, report},
    },
    backend::Backend,
    model::{
        endpoint::Endpoint,
        handler_options::{HandlerOptions, Policy},
        stored_request::StoredRequest,
        subject::Subject,
    },
};

/// The future of an extraction: the arguments, or the rejection.
pub(super) type Extracting<T> = Pin<Box<dyn Future<Output = Result<T, Response>> + Send>>;

/// A request whose arguments are extracted. It can extract them again for another attempt.
pub(super) struct ExtractedRequest<T> {
    pub(super) parts: Parts,
    pub(super) body: Bytes,
    pub(super) extract: Arc<dyn Fn(Request) -> Extracting<T> + Send + Sync>,
}

impl<T> ExtractedRequest<T> {
    /// The parts that a fingerprint is made of.
    pub(super) fn subject(&self) -> Subject<'_> {
        Subject { parts: &self.parts, uri: self.original_uri(), body: &self.body }
    }

    /// The route; the original path if the request matched no route. (The path that a nested fallback sees lacks the prefix.)
    pub(super) fn endpoint(&self) -> Endpoint<'_> {
        self.route().map_or(Endpoint::Path(self.original_uri().path()), Endpoint::Route)
    }

    /// The address that the client sent, before any router stripped a prefix.
    fn original_uri(&self) -> &Uri {
        self.parts.extensions.get::<OriginalUri>().map_or(&self.parts.uri, |OriginalUri(uri)| uri)
    }

    /// The route, if the request came by one.
    pub(super) fn route(&self) -> Option<&str> {
        self.parts.extensions.get::<MatchedPath>().map(MatchedPath::as_str)
    }

    /// The encoded request for a reconciler.
    pub(super) fn encode(&self) -> Vec<u8> {
        let Subject { parts, uri, body } = self.subject();
        StoredRequest::encode(&parts.method, uri, parts.headers.get(header::CONTENT_TYPE), body)
    }

    /// Extracts the arguments again, for the second attempt and those after it.
    pub(super) async fn extract_again(&self) -> Result<T, Response> {
        (self.extract)(Request::from_parts(self.parts.clone(), Body::from(self.body.clone()))).await
    }
}

/// The application, the handler's options over its defaults, and when the request started.
pub struct RequestContext<Db: Backend> {
    pub(crate) idempotency: Idempotency<Db>,
    pub(crate) handler: &'static HandlerOptions,
    pub(crate) policy: Policy,
    started_at: Instant,
}

impl<Db: Backend> RequestContext<Db> {
    pub(super) fn new(idempotency: Idempotency<Db>, handler: &'static HandlerOptions, started_at: Instant) -> Self {
        let policy = idempotency.app.policy.over(handler);
        Self { idempotency, handler, policy, started_at }
    }

    /// The time since the request started.
    pub(super) fn elapsed(&self) -> Duration {
        self.started_at.elapsed()
    }

    /// Reports a response, just before it is sent.
    pub(super) fn report(&self, kind: ResponseKind) {
        report(self.handler.operation, kind, self.started_at);
    }

    /// One of idem's own responses, rendered in the application's error format.
    pub(super) fn problem(&self, code: Code) -> Response {
        self.idempotency.app.render(code, self.policy.mismatch)
    }
}

impl<Db: Backend> Clone for RequestContext<Db> {
    fn clone(&self) -> Self {
        Self { idempotency: self.idempotency.clone(), ..*self }
    }
}
