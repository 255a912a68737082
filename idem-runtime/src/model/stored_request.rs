//! The stored request that a reconciler reads. A handler opts in with `store_request`.
//! Golden bytes in the tests pin the encoding: a newer release may decide a record that an older one started.

use bytes::Bytes;
use http::{HeaderValue, Method, Uri, uri::PathAndQuery};

use crate::model::codec::{put_field, take_field};

/// The number of the encoding below, its first byte. Other numbers do not decode.
const FORMAT: u8 = 1;

/// The request of a handler with `store_request`: method, URI, content type and body. Other headers, including
/// credentials, are not stored. It is deleted when the record is decided.
#[derive(Clone)]
pub struct StoredRequest {
    method: Method,
    uri: Uri,
    content_type: Option<HeaderValue>,
    body: Bytes,
}

impl StoredRequest {
    /// The format number, then each part after its length: method, path and query, content type (empty for none), body.
    pub(crate) fn encode(method: &Method, uri: &Uri, content_type: Option<&HeaderValue>, body: &Bytes) -> Vec<u8> {
        // Without scheme and authority, which some clients send.
        let uri = uri.path_and_query().map_or("/", PathAndQuery::as_str);
        let content_type = content_type.map_or(&[][..], HeaderValue::as_bytes);
        let mut encoded = vec![FORMAT];
        for part in [method.as_str().as_bytes(), uri.as_bytes(), content_type, body] {
            // A part over 4 GiB does not pass a route's limit. If it did, nothing would decode, and that is logged.
            if put_field(&mut encoded, part).is_none() {
                break;
            }
        }
        encoded
    }

    /// `None` if the bytes are not in this encoding.
    pub(crate) fn decode(encoded: &[u8]) -> Option<Self> {
        let mut rest = encoded.strip_prefix(&[FORMAT])?;
        let method = Method::from_bytes(take_field(&mut rest)?).ok()?;
        let uri = Uri::try_from(take_field(&mut rest)?).ok()?;
        let content_type = match take_field(&mut rest)? {
            [] => None,
            value => Some(HeaderValue::from_bytes(value).ok()?),
        };
        let body = Bytes::copy_from_slice(take_field(&mut rest)?);
        rest.is_empty().then_some(Self { method, uri, content_type, body })
    }

    /// The method.
    #[must_use]
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// The path and query, as the client sent them.
    #[must_use]
    pub fn uri(&self) -> &Uri {
        &self.uri
    }

    /// The `Content-Type`.
    #[must_use]
    pub fn content_type(&self) -> Option<&HeaderValue> {
        self.content_type.as_ref()
    }

    /// The complete body.
    #[must_use]
    pub fn body(&self) -> &Bytes {
        &self.body
    }
}

/// Does not show the request.
impl std::fmt::Debug for StoredRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StoredRequest(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(content_type: Option<&'static str>, body: &'static [u8]) -> Vec<u8> {
        let content_type = content_type.map(HeaderValue::from_static);
        // The form in which a client asks a proxy.
        let uri = Uri::from_static("http://example.com/charges?dry=1");
        StoredRequest::encode(&Method::POST, &uri, content_type.as_ref(), &Bytes::from_static(body))
    }

    #[test]
    fn b20_the_encoding_is_pinned() {
        let pinned = b"\x01\0\0\0\x04POST\0\0\0\x0e/charges?dry=1\0\0\0\x01j\0\0\0\x02{}";
        assert_eq!(encoded(Some("j"), b"{}"), pinned);
        // Without a path, and with nothing more.
        let bare = StoredRequest::encode(&Method::POST, &Uri::from_static("example.com:80"), None, &Bytes::new());
        assert_eq!(bare, b"\x01\0\0\0\x04POST\0\0\0\x01/\0\0\0\0\0\0\0\0");
    }

    #[test]
    fn what_is_encoded_decodes() {
        for (content_type, body) in [(Some("application/json"), &b"\0\xff"[..]), (None, b"")] {
            let read = StoredRequest::decode(&encoded(content_type, body)).expect("decodes");
            assert_eq!((read.method(), read.uri().to_string().as_str()), (&Method::POST, "/charges?dry=1"));
            assert_eq!(read.content_type().map(HeaderValue::as_bytes), content_type.map(str::as_bytes));
            assert_eq!(&read.body()[..], body);
        }
    }

    #[test]
    fn what_was_not_encoded_is_none() {
        let complete = encoded(Some("text/plain"), b"body");
        for length in 0..complete.len() {
            assert!(StoredRequest::decode(&complete[..length]).is_none(), "{length}");
        }
        assert!(StoredRequest::decode(&[&complete[..], b"x"].concat()).is_none());
        assert!(StoredRequest::decode(&[&[2], &complete[1..]].concat()).is_none());
    }
}
