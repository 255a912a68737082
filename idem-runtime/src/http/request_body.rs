//! A request body that keeps its frames while an extractor reads them.
//! So authentication answers before a body is read, axum's own limits hold, and a retried transaction extracts again.

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

/// The body of one request's body, shared by every reader of it.
#[derive(Clone)]
pub(crate) struct BufferedBody(Arc<Mutex<Buffer>>);

struct Buffer {
    frames: Vec<Bytes>,
    source: Source,
    /// The readers that wait. The source wakes only the one that asked it last, who passes it on.
    waiting: Vec<Waker>,
}

enum Source {
    /// There may be more.
    Open(Body),
    Ended,
    /// Reading failed; whoever reads again is told so.
    Failed,
}

/// Reads a body from its start, and beyond its end from the client.
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

    /// Reads what no extractor read, under the route's own limit, and returns the whole body.
    ///
    /// The error is axum's own rejection: 413 over the limit, 400 for a body that breaks off.
    pub(crate) async fn finish(&self, parts: &Parts) -> Result<Bytes, Response> {
        if let Some(whole) = self.buffer().whole() {
            return Ok(whole);
        }
        let request = Request::from_parts(parts.clone(), self.body());
        Bytes::from_request(request, &()).await.map_err(IntoResponse::into_response)
    }

    fn buffer(&self) -> MutexGuard<'_, Buffer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Buffer {
    fn whole(&self) -> Option<Bytes> {
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
                let mut whole = BytesMut::with_capacity(frames.iter().map(Bytes::len).sum());
                for frame in frames {
                    whole.extend_from_slice(frame);
                }
                Some(whole.freeze())
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
                Source::Failed => return Poll::Ready(Some(Err("the request body broke off".into()))),
            };
            let Poll::Ready(polled) = http_body::Body::poll_frame(Pin::new(body), context) else {
                if !self.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                    self.waiting.push(context.waker().clone());
                }
                return Poll::Pending;
            };
            self.waiting.drain(..).for_each(Waker::wake);
            match polled {
                // Trailers are no part of the content.
                Some(Ok(frame)) => self.frames.extend(frame.into_data()),
                Some(Err(error)) => {
                    self.source = Source::Failed;
                    // Without axum's wrapping, which its extractors look through only so deep, for a 413.
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
        let recorded: usize = buffer.frames.iter().skip(self.next).map(Bytes::len).sum();
        let recorded = u64::try_from(recorded).unwrap_or(u64::MAX);
        let Source::Open(body) = &buffer.source else { return SizeHint::with_exact(recorded) };
        let rest = http_body::Body::size_hint(body);
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(recorded));
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper.saturating_add(recorded));
        }
        hint
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // It may be the one whom the source would have woken.
        self.body.buffer().waiting.drain(..).for_each(Waker::wake);
    }
}
