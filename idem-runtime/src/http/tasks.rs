//! The tasks in which attempts run, so that a client's disconnect does not stop them.
//! `drain` waits for them. They run in the request's span.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use axum::response::{IntoResponse, Response};
use http::request::Parts;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;
use tracing::{Instrument, Span};

use crate::{
    app::{
        in_task::InTask,
        problem::{Code, Problem},
    },
    engine::Panicked,
};

/// The task in which one request's attempts are to run.
pub struct Tasks {
    pub(crate) tracker: TaskTracker,
    pub(crate) span: Span,
    /// The application's hook and what it gets.
    pub(crate) in_task: Option<(InTask, Parts)>,
}

impl Tasks {
    /// Starts the attempts. The returned type does not name the future's, so a body that is not `Send` is reported
    /// here, and not a second time at the route.
    pub fn run(self, attempts: impl Future<Output = Response> + Send + 'static) -> Finishing {
        let attempts = attempts.instrument(self.span);
        let Some((in_task, parts)) = self.in_task else { return Finishing(self.tracker.spawn(attempts)) };
        let panicked = || Box::pin(async { Problem::new(Code::HandlerPanicked).into_response() });
        Finishing(match in_task.wrap(&parts, Box::pin(attempts)) {
            Ok(wrapped) => self.tracker.spawn(wrapped),
            // Nothing has run.
            Err(Panicked) => self.tracker.spawn(panicked()),
        })
    }
}

/// Attempts that run to completion, awaited or not.
pub struct Finishing(JoinHandle<Response>);

impl Future for Finishing {
    type Output = Response;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Response> {
        Poll::Ready(match ready!(Pin::new(&mut self.0).poll(context)) {
            Ok(response) => response,
            // The runtime is shutting down, or something panicked outside the user's code, whose panics are caught.
            Err(_) => Problem::new(Code::OutcomeUnknown).into_response(),
        })
    }
}
