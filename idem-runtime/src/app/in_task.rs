//! The application's hook around the task of each request: it carries the request's context into the task.
//! The context is what a new task does not have: task-locals, a subscriber set for a future, a trace.

use std::sync::Arc;

use axum::response::Response;
use futures_util::future::BoxFuture;
use http::request::Parts;

use crate::engine::{Panicked, guarded};

type Wrap = dyn Fn(&Parts, BoxFuture<'static, Response>) -> BoxFuture<'static, Response> + Send + Sync;

/// See [`Builder::in_task`](crate::Builder::in_task).
#[derive(Clone)]
pub(crate) struct InTask(Arc<Wrap>);

impl InTask {
    pub(super) fn new(
        wrap: impl Fn(&Parts, BoxFuture<'static, Response>) -> BoxFuture<'static, Response> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(wrap))
    }

    /// The future to run in the task. Call it where the request's context is current.
    pub(crate) fn wrap(
        &self,
        parts: &Parts,
        attempts: BoxFuture<'static, Response>,
    ) -> Result<BoxFuture<'static, Response>, Panicked> {
        guarded(|| (self.0)(parts, attempts))
    }
}
