//! A stored call: everything needed to send the same bytes under the same key after a restart.
//! It contains no credentials; add fresh ones when you resume it.

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

/// One call: its key, and the request that every attempt sends.
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

/// Marks a request that resumes a call. The middleware removes it from the request's extensions.
#[derive(Clone)]
pub(crate) struct Resumed(pub(crate) Arc<Call>);

/// The first line of a stored call. The fields are in alphabetical order, because that is how `serde_json` writes them
/// unless some crate of the application enables its feature `preserve_order`.
#[derive(Serialize, Deserialize)]
struct Head {
    /// Each character of a value is one byte.
    headers: Vec<(String, String)>,
    key: String,
    method: String,
    quoted: bool,
    url: String,
    version: u32,
}

/// The part of the first line that is the same in all versions.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

impl Call {
    /// Makes the call of a request. Its body must be bytes.
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

    /// Returns the key.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Returns the method.
    #[must_use]
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// Returns the URL with its query.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Returns the headers, without the key, `Authorization`, `Cookie`, `Proxy-Authorization` and headers marked as
    /// [sensitive](HeaderValue::set_sensitive).
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Returns the body.
    #[must_use]
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// Encodes the call for a file or a database column, see [the stored encoding](crate#the-stored-encoding). Later
    /// releases of this crate can decode it.
    ///
    /// The bytes contain the key and the body in plain text: protect them like the payments themselves.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let latin1 = |value: &HeaderValue| value.as_bytes().iter().map(|&byte| char::from(byte)).collect();
        let head = Head {
            headers: self.headers.iter().map(|(name, value)| (name.to_string(), latin1(value))).collect(),
            key: self.key.as_str().to_owned(),
            method: self.method.to_string(),
            quoted: self.key.quoting() == KeyQuoting::Quoted,
            url: self.url.to_string(),
            version: VERSION,
        };
        let mut bytes = serde_json::json!(head).to_string().into_bytes();
        bytes.push(b'\n');
        bytes.extend_from_slice(&self.body);
        bytes
    }

    /// Decodes a call that [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    /// [`Error::Unreadable`] if the bytes are not a call, or if their version is not supported.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let end = bytes.iter().position(|&byte| byte == b'\n').ok_or(Error::Unreadable("no header line"))?;
        // The version comes first: another version may have other members.
        let Versioned { version } = head(&bytes[..end])?;
        if version != VERSION {
            return Err(Error::Unreadable("unsupported version"));
        }
        let Head { headers, key, method, quoted, url, .. } = head(&bytes[..end])?;
        let quoting = if quoted { KeyQuoting::Quoted } else { KeyQuoting::Bare };
        let headers: Option<Vec<_>> = headers.into_iter().map(|(name, value)| header(&name, &value)).collect();
        Ok(Self {
            key: Key::new(key).map_err(|_| Error::Unreadable("invalid key"))?.with_quoting(quoting),
            method: method.parse().map_err(|_| Error::Unreadable("invalid method"))?,
            url: url.parse().map_err(|_| Error::Unreadable("invalid URL"))?,
            headers: headers.ok_or(Error::Unreadable("invalid headers"))?.into_iter().fold(HeaderMap::new(), appended),
            body: Bytes::copy_from_slice(&bytes[end + 1..]),
        })
    }

    /// Makes a request with the same key, method, URL, headers and body. Add the headers that were not stored, such as
    /// credentials, and send it. If you change the method, URL or body, `send` fails with [`Error::Altered`] and sends
    /// nothing. The journal does not store the call again.
    ///
    /// Resume within the server's retention, which is 24 hours by default. After it the key counts as new, and the call can
    /// take effect a second time.
    pub fn resume(&self, client: &ClientWithMiddleware) -> RequestBuilder {
        let mut headers = self.headers.clone();
        // In the header too, because a client without this middleware must not send the call without its key.
        if let Ok(line) = self.key.to_header() {
            headers.insert(key::HEADER, line);
        }
        let request = client.request(self.method.clone(), self.url.clone()).headers(headers).body(self.body.clone());
        request.with_extension(Resumed(Arc::new(self.clone())))
    }

    /// Whether a request has this call's method, URL and body, which a server compares.
    pub(crate) fn matches(&self, request: &Request) -> bool {
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

/// The body's bytes; `None` if it is a stream.
fn bytes(request: &Request) -> Option<&[u8]> {
    request.body().map_or(Some(&[]), reqwest::Body::as_bytes)
}

fn head<T: serde::de::DeserializeOwned>(line: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(line).map_err(|_| Error::Unreadable("malformed header line"))
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
            assert_eq!(read.key().quoting(), KeyQuoting::Quoted);
        }
    }

    #[test]
    fn b78_what_this_version_writes_is_what_later_ones_must_read() {
        let quoted = b"{\"headers\":[[\"x-tenant\",\"caf\xc3\xa9\"],[\"x-tenant\",\"two\"]],\"key\":\"order-17\",\"method\":\"POST\",\
            \"quoted\":true,\"url\":\"https://bank.test/payments?dry=0\",\"version\":1}\nbody\x00\xff\n";
        assert_eq!(call(b"body\x00\xff\n").encode().escape_ascii().to_string(), quoted.escape_ascii().to_string());
        assert_eq!(Call::decode(quoted).unwrap().headers()["x-tenant"].as_bytes(), b"caf\xe9");

        let bare = b"{\"headers\":[[\"x-note\",\"a\\t\\\"\\\\/\xc2\x80\xc3\xbf\"]],\"key\":\"k\",\"method\":\"PATCH\",\"quoted\":false,\
            \"url\":\"http://bank.test:8080/%22?q=%7B\",\"version\":1}\n";
        let mut request = Request::new(Method::PATCH, "http://bank.test:8080/%22?q=%7B".parse().unwrap());
        request.headers_mut().insert("x-note", HeaderValue::from_bytes(b"a\t\"\\/\x80\xff").unwrap());
        let encoded = Call::of(Key::new("k").unwrap(), &request).unwrap().encode();
        assert_eq!(encoded.escape_ascii().to_string(), bare.escape_ascii().to_string());
        let read = Call::decode(bare).unwrap();
        assert_eq!((read.key().as_str(), read.key().quoting(), read.method()), ("k", KeyQuoting::Bare, &Method::PATCH));
        assert_eq!((read.headers(), read.url(), &read.body()[..]), (request.headers(), request.url(), &b""[..]));
    }

    #[test]
    fn credentials_are_not_kept() {
        let kept = call(b"{}");
        assert!(!String::from_utf8_lossy(&kept.encode()).contains("s3cret"));
        assert_eq!(kept.headers().len(), 2);
        assert!(!format!("{kept:?}").contains("order-17"));
    }

    #[test]
    fn bytes_that_are_not_a_call_are_an_error_that_says_why() {
        let changed = |from, to| {
            let text = String::from_utf8(call(b"").encode()).unwrap();
            assert!(text.contains(from));
            text.replace(from, to)
        };
        for (bytes, reason) in [
            (String::new(), "no header line"),
            ("x".to_owned(), "no header line"),
            ("\n".to_owned(), "malformed header line"),
            ("{}\n".to_owned(), "malformed header line"),
            ("{\"version\":1}\n".to_owned(), "malformed header line"),
            (changed("\"version\":1", "\"version\":2"), "unsupported version"),
            ("{\"version\":2,\"other\":[]}\n".to_owned(), "unsupported version"),
            (changed("order-17", " "), "invalid key"),
            (changed("POST", "P T"), "invalid method"),
            (changed("https:", ""), "invalid URL"),
            (changed("x-tenant", "x tenant"), "invalid headers"),
            (changed("two", "\u{100}"), "invalid headers"),
        ] {
            let error = Call::decode(bytes.as_bytes()).unwrap_err();
            assert!(matches!(error, Error::Unreadable(_)));
            assert_eq!(error.to_string(), format!("cannot decode the stored call: {reason}"), "{bytes}");
        }
    }
}
