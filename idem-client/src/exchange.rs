//! One attempt: a request, the redirects that it may follow, and the response at their end.
//! This module follows redirects because `reqwest` would send the key along, to any origin and with any method.

use http::Extensions;
use reqwest::{
    Method, Request, Response, StatusCode, Url,
    header::{
        AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, LOCATION, PROXY_AUTHORIZATION,
        TRANSFER_ENCODING,
    },
};
use reqwest_middleware::Next;

use crate::{RefusedRedirect, key};

/// Which redirects are followed.
#[derive(Clone)]
pub(crate) struct Redirects {
    /// The maximum number; with 0 the redirect is the response.
    pub(crate) max: usize,
    /// The origins that may get a key, in addition to the origin of the call.
    pub(crate) allowed: Vec<Url>,
}

/// Whether a request may be sent on without its key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protection {
    /// It may not: without the key it could take effect twice.
    Protected,
    /// It may.
    Unprotected,
}

/// Why a request has no response.
pub(crate) enum ExchangeError {
    Refused { status: StatusCode, reason: RefusedRedirect },
    Failed(reqwest_middleware::Error),
}

/// A request between its redirects.
struct Hop {
    request: Request,
    /// The URL of the call: its origin may get the key.
    home: Url,
    protection: Protection,
}

impl Redirects {
    /// Sends a request and follows its redirects.
    pub(crate) async fn exchange(
        &self,
        request: Request,
        protection: Protection,
        extensions: &mut Extensions,
        next: &Next<'_>,
    ) -> Result<Response, ExchangeError> {
        let mut hop = Hop { home: request.url().clone(), request, protection };
        let mut followed = 0;
        loop {
            let copy = hop.request.try_clone();
            let streamed = copy.is_none();
            let copy = copy.unwrap_or_else(|| without_body(&hop.request));
            let response = next.clone().run(hop.request, extensions).await.map_err(ExchangeError::Failed)?;
            hop.request = copy;
            let status = response.status();
            let refused = |reason| ExchangeError::Refused { status, reason };
            let Some(target) = self.target(hop.request.url(), &response) else { return Ok(response) };
            if followed == self.max {
                return Err(refused(RefusedRedirect::TooMany));
            }
            followed += 1;
            hop = self.follow(hop, status, target).map_err(refused)?;
            if streamed && *hop.request.method() != Method::GET {
                // The body was consumed and cannot be sent again: the caller gets the redirect.
                return Ok(response);
            }
        }
    }

    /// The target of a response, if it is a redirect that can be followed.
    fn target(&self, from: &Url, response: &Response) -> Option<Url> {
        if self.max == 0 || !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
            return None;
        }
        let target = from.join(response.headers().get(LOCATION)?.to_str().ok()?).ok()?;
        matches!(target.scheme(), "http" | "https").then_some(target)
    }

    /// The request that follows a redirect.
    fn follow(&self, mut hop: Hop, status: StatusCode, target: Url) -> Result<Hop, RefusedRedirect> {
        let request = &mut hop.request;
        let keeps_method = matches!(status.as_u16(), 307 | 308);
        let becomes_get = match status {
            StatusCode::SEE_OTHER => *request.method() != Method::HEAD,
            StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => *request.method() == Method::POST,
            _ => false,
        };
        let is_target = |url: &Url| *url == target || url.origin() == target.origin();
        let allowed = is_target(&hop.home) || self.allowed.iter().any(is_target);
        if becomes_get {
            *request.method_mut() = Method::GET;
            *request.body_mut() = None;
            for body_header in [CONTENT_TYPE, CONTENT_LENGTH, CONTENT_ENCODING, TRANSFER_ENCODING] {
                request.headers_mut().remove(body_header);
            }
            hop.protection = Protection::Unprotected;
        } else if hop.protection == Protection::Protected && !keeps_method {
            return Err(RefusedRedirect::KeyLost);
        } else if hop.protection == Protection::Protected && !allowed {
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
        Ok(hop)
    }
}

/// Copies a request without its body, which is a stream and cannot be copied.
fn without_body(request: &Request) -> Request {
    let mut copy = Request::new(request.method().clone(), request.url().clone());
    *copy.headers_mut() = request.headers().clone();
    *copy.timeout_mut() = request.timeout().copied();
    *copy.version_mut() = request.version();
    copy
}
