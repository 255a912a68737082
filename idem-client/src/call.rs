//! A call as it is kept: what is needed to send the same bytes under the same key after a restart.
//! Credentials are left out; a resumed call gets fresh ones.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use reqwest::{
    Method, Request, Url,
    header::{AUTHORIZATION, COOKIE, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHORIZATION},
};
use reqwest_middleware::{ClientWithMiddleware, RequestBuilder};
use serde::{Deserialize, Serialize};

use crate::{
    Error, Key, KeyQuoting,
    key::{self},
};

/// The format of [`Call::encode`].
const VERSION: u32 = 1;

/// One logical call: its key, and the request that every attempt sends.
///
/// `Debug` shows the method, the key's digest and the body's length.
#[derive(Clone)]
pub struct Call {
    key: Key,
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: Bytes,
}

/// Says which call a request resumes; the middleware takes it out of the request's extensions.
#[derive(Clone)]
pub(crate) struct Resumed(pub(crate) Arc<Call>);

/// The first line of a kept call.
#[derive(Serialize, Deserialize)]
struct Head {
    version: u32,
    key: String,
    quoted: bool,
    method: String,
    url: String,
    /// Values are bytes; each is the character of that number.
    headers: Vec<(String, String)>,
}

impl Call {
    /// The call of a request whose body is bytes.
    pub(crate) fn of(key: Key, request: &Request) -> Result<Self, Error> {
        let Some(body) = bytes(request) else { return Err(Error::NotRepeatable { key }) };
        let mut headers = request.headers().clone();
        for secret in [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION, key::HEADER] {
            headers.remove(secret);
        }
        let headers = headers.iter().filter(|(_, value)| !value.is_sensitive());
        let headers = headers.map(|(name, value)| (name.clone(), value.clone())).fold(HeaderMap::new(), appended);
        let body = Bytes::copy_from_slice(body);
        Ok(Self { key, method: request.method().clone(), url: request.url().clone(), headers, body })
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The method.
    #[must_use]
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// The URL, with its query.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The headers, without the key, `Authorization`, `Cookie`, `Proxy-Authorization`, and whatever is marked
    /// [sensitive](HeaderValue::set_sensitive).
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The body.
    #[must_use]
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The call as bytes for a file or a column: a line of JSON, then the body as it is. They hold the key and the body in
    /// clear, so keep them as you keep payments. Later versions of this crate read them.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let latin = |value: &HeaderValue| value.as_bytes().iter().map(|&byte| char::from(byte)).collect();
        let head = Head {
            version: VERSION,
            key: self.key.as_str().to_owned(),
            quoted: self.key.spelling() == KeyQuoting::Quoted,
            method: self.method.to_string(),
            url: self.url.to_string(),
            headers: self.headers.iter().map(|(name, value)| (name.to_string(), latin(value))).collect(),
        };
        let mut bytes = serde_json::json!(head).to_string().into_bytes();
        bytes.push(b'\n');
        bytes.extend_from_slice(&self.body);
        bytes
    }

    /// The call that [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    /// [`Error::Unreadable`] if the bytes are not a call, or one of a later version.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let end = bytes.iter().position(|&byte| byte == b'\n').ok_or(Error::Unreadable("it has no first line"))?;
        let head = serde_json::from_slice(&bytes[..end]).map_err(|_| Error::Unreadable("its first line is another"))?;
        let Head { version, key, quoted, method, url, headers } = head;
        if version != VERSION {
            return Err(Error::Unreadable("its version is another"));
        }
        let spelling = if quoted { KeyQuoting::Quoted } else { KeyQuoting::Bare };
        let headers: Option<Vec<_>> = headers.into_iter().map(|(name, value)| header(&name, &value)).collect();
        Ok(Self {
            key: Key::new(key).map_err(|_| Error::Unreadable("its key is none"))?.with_quoting(spelling),
            method: method.parse().map_err(|_| Error::Unreadable("its method is none"))?,
            url: url.parse().map_err(|_| Error::Unreadable("its URL is none"))?,
            headers: headers
                .ok_or(Error::Unreadable("its headers are none"))?
                .into_iter()
                .fold(HeaderMap::new(), appended),
            body: Bytes::copy_from_slice(&bytes[end + 1..]),
        })
    }

    /// The call once more: the same key, method, URL, headers and body. Add what was not kept, such as credentials, and
    /// send it; it is refused before anything is sent if its method, URL or body was changed. The journal is not asked to
    /// keep it again.
    ///
    /// Resume within the server's retention (24 hours, unless it says more): past it the key is new, and the call would
    /// take effect a second time.
    pub fn resume(&self, client: &ClientWithMiddleware) -> RequestBuilder {
        let mut headers = self.headers.clone();
        // In the header too: a client without this middleware must not send the call unprotected.
        if let Ok(line) = self.key.to_header() {
            headers.insert(key::HEADER, line);
        }
        let request = client.request(self.method.clone(), self.url.clone()).headers(headers).body(self.body.clone());
        request.with_extension(Resumed(Arc::new(self.clone())))
    }

    /// Whether a request is this call's: a server compares method, target and body.
    pub(crate) fn is_request(&self, request: &Request) -> bool {
        *request.method() == self.method && *request.url() == self.url && bytes(request) == Some(&self.body)
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("key", &self.key)
            .field("method", &self.method)
            .field("body_length", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// The body's bytes; `None` is a stream.
fn bytes(request: &Request) -> Option<&[u8]> {
    request.body().map_or(Some(&[]), reqwest::Body::as_bytes)
}

fn header(name: &str, value: &str) -> Option<(HeaderName, HeaderValue)> {
    let value: Option<Vec<u8>> = value.chars().map(|character| u8::try_from(character).ok()).collect();
    Some((name.parse().ok()?, HeaderValue::from_bytes(&value?).ok()?))
}

fn appended(mut headers: HeaderMap, (name, value): (HeaderName, HeaderValue)) -> HeaderMap {
    headers.append(name, value);
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(body: &'static [u8]) -> Call {
        let mut request = Request::new(Method::POST, "https://bank.test/payments?dry=0".parse().unwrap());
        let mut secret = HeaderValue::from_static("s3cret");
        secret.set_sensitive(true);
        let lines = [
            ("authorization", HeaderValue::from_static("Bearer s3cret")),
            ("cookie", HeaderValue::from_static("s3cret")),
            ("proxy-authorization", HeaderValue::from_static("s3cret")),
            ("idempotency-key", HeaderValue::from_static("s3cret")),
            ("x-api-key", secret),
            ("x-tenant", HeaderValue::from_bytes(b"caf\xe9").unwrap()),
            ("x-tenant", HeaderValue::from_static("two")),
        ];
        for (name, value) in lines {
            request.headers_mut().append(name, value);
        }
        *request.body_mut() = Some(body.into());
        Call::of(Key::new("order-17").unwrap().with_quoting(KeyQuoting::Quoted), &request).unwrap()
    }

    #[test]
    fn b78_a_kept_call_comes_back_byte_for_byte() {
        for body in [&b"{\"amount\":1}"[..], b"", b"\n\n\x00\xff"] {
            let kept = call(body);
            let read = Call::decode(&kept.encode()).unwrap();
            assert_eq!((read.key(), read.method(), read.url()), (kept.key(), kept.method(), kept.url()));
            assert_eq!((read.headers(), &read.body()[..]), (kept.headers(), body));
            assert_eq!(read.key().spelling(), KeyQuoting::Quoted);
        }
    }

    #[test]
    fn b78_what_this_version_writes_is_what_later_ones_must_read() {
        let kept = b"{\"headers\":[[\"x-tenant\",\"caf\xc3\xa9\"],[\"x-tenant\",\"two\"]],\"key\":\"order-17\",\"method\":\"POST\",\
            \"quoted\":true,\"url\":\"https://bank.test/payments?dry=0\",\"version\":1}\nbody";
        assert_eq!(String::from_utf8_lossy(&call(b"body").encode()), String::from_utf8_lossy(kept));
        assert_eq!(Call::decode(kept).unwrap().headers()["x-tenant"].as_bytes(), b"caf\xe9");
    }

    #[test]
    fn credentials_are_not_kept() {
        let kept = call(b"{}");
        assert!(!String::from_utf8_lossy(&kept.encode()).contains("s3cret"));
        assert_eq!(kept.headers().len(), 2);
        assert!(!format!("{kept:?}").contains("order-17"));
    }

    #[test]
    fn what_is_no_call_is_an_error() {
        let newer = String::from_utf8(call(b"").encode()).unwrap().replace("\"version\":1", "\"version\":2");
        let keyless = String::from_utf8(call(b"").encode()).unwrap().replace("order-17", "a b");
        for bytes in [&b""[..], b"x", b"\n", b"{}\n", newer.as_bytes(), keyless.as_bytes()] {
            assert!(matches!(Call::decode(bytes), Err(Error::Unreadable(_))), "{}", String::from_utf8_lossy(bytes));
        }
    }
}
