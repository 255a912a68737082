//! A response whose body is read step by step: first as much as the retry rule needs, then as much as is read ahead.
//! Nothing that was read is lost: the caller's response starts with it and continues as a stream.

use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt as _, future::ready, stream};
use http::response::Parts;
use http_body::Frame;
use http_body_util::{BodyExt as _, BodyStream, StreamBody};
use reqwest::{Body, Response, ResponseBuilderExt as _};

use crate::{ErrorResponse, response::is_replay};

pub(crate) struct Arriving {
    parts: Parts,
    read: BytesMut,
    /// `None` after the end of the body.
    rest: Option<Body>,
}

impl Arriving {
    pub(crate) fn new(response: Response) -> Self {
        let url = response.url().clone();
        let (mut parts, rest) = http::Response::from(response).into_parts();
        // The conversion drops the URL.
        let with_url =
            http::response::Builder::new().url(url).body(()).map(|response| response.into_parts().0.extensions);
        parts.extensions.extend(with_url.unwrap_or_default());
        Self { parts, read: BytesMut::new(), rest: Some(rest) }
    }

    /// Reads until `limit` bytes of the body are read, or it ends.
    pub(crate) async fn read_to(&mut self, limit: usize) -> reqwest::Result<()> {
        while self.read.len() < limit
            && let Some(rest) = &mut self.rest
        {
            match rest.frame().await {
                None => self.rest = None,
                Some(frame) => {
                    if let Ok(data) = frame?.into_data() {
                        self.read.extend_from_slice(&data);
                    }
                }
            }
        }
        Ok(())
    }

    /// The error response as far as it is read; `None` for any other, and for a replay: the server has stored it, and a
    /// retry cannot change it.
    pub(crate) fn error_response(&self) -> Option<ErrorResponse> {
        let Parts { status, headers, .. } = &self.parts;
        let is_error = status.is_client_error() || status.is_server_error();
        if !is_error || is_replay(headers) {
            return None;
        }
        let kept = self.read.len().min(ErrorResponse::MAX_BODY);
        Some(ErrorResponse {
            status: *status,
            headers: headers.clone(),
            body: Bytes::copy_from_slice(&self.read[..kept]),
            truncated: self.rest.is_some() || kept < self.read.len(),
        })
    }

    pub(crate) fn into_response(self) -> Response {
        let read = self.read.freeze();
        let body = match self.rest {
            None => Body::from(read),
            Some(rest) => {
                let read: stream::Once<_> = stream::once(ready(Ok::<_, reqwest::Error>(Frame::data(read))));
                Body::wrap(StreamBody::new(read.chain(BodyStream::new(rest))))
            }
        };
        http::Response::from_parts(self.parts, body).into()
    }
}
