//! One attempt: a request, the redirects that it may follow, and the whole of its answer.
//! Redirects are followed here because `reqwest` would carry the key along, to whatever place and with whatever method.

use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt as _, future::ready, stream};
use http::Extensions;
use http_body::Frame;
use http_body_util::{BodyExt as _, BodyStream, StreamBody};
use reqwest::{
    Body, Method, Request, Response, ResponseBuilderExt as _, StatusCode, Url,
    header::{
        AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, LOCATION, PROXY_AUTHORIZATION,
        TRANSFER_ENCODING,
    },
};
use reqwest_middleware::Next;

use crate::{RefusedRedirect, key};

/// Where redirects may lead.
#[derive(Clone)]
pub(crate) struct Redirects {
    /// How many are followed; with 0 the redirect is the answer.
    pub(crate) most: usize,
    /// Where a key may go besides the origin of its call.
    pub(crate) allowed: Vec<Url>,
}

/// What a request without an answer ended with.
pub(crate) enum Broken {
    Refused { status: StatusCode, reason: RefusedRedirect },
    Failed(reqwest_middleware::Error),
}

/// A request on its way.
struct Travel {
    request: Request,
    /// Where its key was meant for.
    home: Url,
    /// Whether it carries a key that it must not go on without.
    keyed: bool,
}

impl Redirects {
    /// Sends a request and follows its redirects; `keyed` if it must not be sent on as it is without its key.
    pub(crate) async fn exchange(
        &self,
        request: Request,
        keyed: bool,
        extensions: &mut Extensions,
        next: &Next<'_>,
    ) -> Result<Response, Broken> {
        let mut travel = Travel { home: request.url().clone(), request, keyed };
        let mut followed = 0;
        loop {
            let copy = travel.request.try_clone();
            let streamed = copy.is_none();
            let copy = copy.unwrap_or_else(|| bodiless(&travel.request));
            let response = next.clone().run(travel.request, extensions).await.map_err(Broken::Failed)?;
            travel.request = copy;
            let status = response.status();
            let refused = |reason| Broken::Refused { status, reason };
            let Some(target) = self.target(travel.request.url(), &response) else { return Ok(response) };
            if followed == self.most {
                return Err(refused(RefusedRedirect::TooMany));
            }
            followed += 1;
            travel = self.turn(travel, status, target).map_err(refused)?;
            if streamed && *travel.request.method() != Method::GET {
                // Its body is gone. The caller sees the redirect.
                return Ok(response);
            }
        }
    }

    /// Where an answer leads, if it is a redirect that can be followed.
    fn target(&self, from: &Url, response: &Response) -> Option<Url> {
        if self.most == 0 || !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
            return None;
        }
        let target = from.join(response.headers().get(LOCATION)?.to_str().ok()?).ok()?;
        matches!(target.scheme(), "http" | "https").then_some(target)
    }

    /// The request as it goes on.
    fn turn(&self, mut travel: Travel, status: StatusCode, target: Url) -> Result<Travel, RefusedRedirect> {
        let request = &mut travel.request;
        let keeps_method = matches!(status.as_u16(), 307 | 308);
        let becomes_get = match status {
            StatusCode::SEE_OTHER => *request.method() != Method::HEAD,
            StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => *request.method() == Method::POST,
            _ => false,
        };
        let may_have_key = |url: &Url| *url == target || url.origin() == target.origin();
        let allowed = may_have_key(&travel.home) || self.allowed.iter().any(may_have_key);
        if becomes_get {
            *request.method_mut() = Method::GET;
            *request.body_mut() = None;
            for of_the_body in [CONTENT_TYPE, CONTENT_LENGTH, CONTENT_ENCODING, TRANSFER_ENCODING] {
                request.headers_mut().remove(of_the_body);
            }
            travel.keyed = false;
        } else if travel.keyed && !keeps_method {
            return Err(RefusedRedirect::KeyLost);
        } else if travel.keyed && !allowed {
            return Err(RefusedRedirect::OtherOrigin);
        }
        if !keeps_method || !allowed {
            request.headers_mut().remove(key::HEADER);
        }
        if request.url().origin() != target.origin() {
            for secret in [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION] {
                request.headers_mut().remove(secret);
            }
        }
        *request.url_mut() = target;
        Ok(travel)
    }
}

/// A request without its body, which is a stream and cannot be copied.
fn bodiless(request: &Request) -> Request {
    let mut copy = Request::new(request.method().clone(), request.url().clone());
    *copy.headers_mut() = request.headers().clone();
    *copy.timeout_mut() = request.timeout().copied();
    *copy.version_mut() = request.version();
    copy
}

/// Reads an answer's body up to the limit, so that one that breaks off is an error here, where there can be another
/// attempt, and not in the caller's hands. A longer one goes on as a stream behind what was read.
pub(crate) async fn read_ahead(response: Response, limit: usize) -> reqwest::Result<Response> {
    let url = response.url().clone();
    let (mut parts, mut rest) = http::Response::from(response).into_parts();
    // The conversion leaves the URL behind.
    let with_url = http::response::Builder::new().url(url).body(()).map(|with_url| with_url.into_parts().0.extensions);
    parts.extensions.extend(with_url.unwrap_or_default());
    let mut read = BytesMut::new();
    while read.len() < limit {
        let Some(frame) = rest.frame().await else {
            return Ok(http::Response::from_parts(parts, Body::from(read.freeze())).into());
        };
        if let Ok(data) = frame?.into_data() {
            read.extend_from_slice(&data);
        }
    }
    let read: stream::Once<_> = stream::once(ready(Ok::<_, reqwest::Error>(Frame::data(Bytes::from(read)))));
    let body = StreamBody::new(read.chain(BodyStream::new(rest)));
    Ok(http::Response::from_parts(parts, Body::wrap(body)).into())
}
