//! A request body that buffers its frames while an extractor reads them.
//! So authentication responds before a body is read, axum's limits apply, and a retried transaction can extract again.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker, ready},
};

use axum::{
    BoxError,
    body::Body,
    extract::{FromRequest, Request},
    response::{IntoResponse, Response},
};
use bytes::{Bytes, BytesMut};
use http::request::Parts;
use http_body::{Frame, SizeHint};

/// The body of one request, shared by all its readers.
#[derive(Clone)]
pub(crate) struct BufferedBody(Arc<Mutex<Buffer>>);

struct Buffer {
    frames: Vec<Bytes>,
    source: Source,
    /// The readers that wait. The source wakes only the reader that polled it last, which wakes the others.
    waiting: Vec<Waker>,
}

enum Source {
    /// There may be more.
    Open(Body),
    Ended,
    /// Reading failed, and fails again for every further read.
    Failed,
}

/// Reads a body from its start: first the buffered frames, then those from the client.
struct Reader {
    body: BufferedBody,
    next: usize,
}

impl BufferedBody {
    pub(crate) fn of(body: Body) -> Self {
        Self(Arc::new(Mutex::new(Buffer { frames: Vec::new(), source: Source::Open(body), waiting: Vec::new() })))
    }

    /// A body that reads from the start.
    pub(crate) fn body(&self) -> Body {
        Body::new(Reader { body: self.clone(), next: 0 })
    }

    /// Reads what no extractor read, under the route's own limit, and returns the complete body.
    ///
    /// The error is axum's own rejection: 413 over the limit, 400 for a truncated body.
    pub(crate) async fn finish(&self, parts: &Parts) -> Result<Bytes, Response> {
        if let Some(complete) = self.buffer().complete() {
            return Ok(complete);
        }
        let request = Request::from_parts(parts.clone(), self.body());
        Bytes::from_request(request, &()).await.map_err(IntoResponse::into_response)
    }

    fn buffer(&self) -> MutexGuard<'_, Buffer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Buffer {
    /// The body, if all of it is buffered.
    fn complete(&self) -> Option<Bytes> {
        let ended = match &self.source {
            Source::Ended => true,
            Source::Open(body) => http_body::Body::is_end_stream(body),
            Source::Failed => false,
        };
        match (ended, self.frames.as_slice()) {
            (false, _) => None,
            (true, []) => Some(Bytes::new()),
            (true, [frame]) => Some(frame.clone()),
            (true, frames) => {
                let mut complete = BytesMut::with_capacity(frames.iter().map(Bytes::len).sum());
                for frame in frames {
                    complete.extend_from_slice(frame);
                }
                Some(complete.freeze())
            }
        }
    }

    fn poll(&mut self, next: usize, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, BoxError>>> {
        loop {
            if let Some(frame) = self.frames.get(next) {
                return Poll::Ready(Some(Ok(frame.clone())));
            }
            let body = match &mut self.source {
                Source::Open(body) => body,
                Source::Ended => return Poll::Ready(None),
                Source::Failed => return Poll::Ready(Some(Err("the request body is truncated".into()))),
            };
            let Poll::Ready(polled) = http_body::Body::poll_frame(Pin::new(body), context) else {
                if !self.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                    self.waiting.push(context.waker().clone());
                }
                return Poll::Pending;
            };
            self.waiting.drain(..).for_each(Waker::wake);
            match polled {
                // Trailers are not part of the content.
                Some(Ok(frame)) => self.frames.extend(frame.into_data()),
                Some(Err(error)) => {
                    self.source = Source::Failed;
                    // Unwrapped: axum's extractors look through few wrappers for the limit's error, which is a 413.
                    return Poll::Ready(Some(Err(error.into_inner())));
                }
                None => self.source = Source::Ended,
            }
        }
    }
}

impl http_body::Body for Reader {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = ready!(self.body.buffer().poll(self.next, context));
        self.next += 1;
        Poll::Ready(polled.map(|data| data.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        let buffer = self.body.buffer();
        let ended = match &buffer.source {
            Source::Open(body) => http_body::Body::is_end_stream(body),
            Source::Ended => true,
            Source::Failed => false,
        };
        ended && self.next >= buffer.frames.len()
    }

    fn size_hint(&self) -> SizeHint {
        let buffer = self.body.buffer();
        let buffered: usize = buffer.frames.iter().skip(self.next).map(Bytes::len).sum();
        let buffered = u64::try_from(buffered).unwrap_or(u64::MAX);
        let Source::Open(body) = &buffer.source else { return SizeHint::with_exact(buffered) };
        let rest = http_body::Body::size_hint(body);
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(buffered));
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper.saturating_add(buffered));
        }
        hint
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // The source may wake only this reader, which no longer passes it on.
        self.body.buffer().waiting.drain(..).for_each(Waker::wake);
    }
}
