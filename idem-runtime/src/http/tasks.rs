//! The tasks in which attempts run, so that a client's disconnect does not stop them.
//! `drain` waits for them. They run in the request's span.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use axum::response::{IntoResponse, Response};
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;
use tracing::{Instrument, Span};

use crate::app::problem::{Code, Problem};

/// The task in which one request's attempts are to run.
pub struct Tasks {
    pub(crate) tracker: TaskTracker,
    pub(crate) span: Span,
}

impl Tasks {
    /// Starts the attempts. The returned type does not name the future's, so a body that is not `Send` is reported
    /// here, and not a second time at the route.
    pub fn run(self, attempts: impl Future<Output = Response> + Send + 'static) -> Finishing {
        Finishing(self.tracker.spawn(attempts.instrument(self.span)))
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
