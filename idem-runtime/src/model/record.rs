//! A row of the table: what is stored for a key, and the encoding of its headers.
//! Golden bytes in the tests pin the encoding: records outlive releases.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use crate::model::{
    codec::{put_field, take_field},
    options::SetCookie,
};

/// The format of a response, with the encoding of `headers` below. A row with another number is not replayed.
const FORMAT: i16 = 1;

/// The format of a consumer's value: JSON in the column `body`.
const VALUE: i16 = 2;

/// One row, as a backend reads and writes it.
#[derive(Clone, PartialEq, Eq)]
pub struct Record {
    pub(crate) fingerprint: Vec<u8>,
    pub(crate) format: i16,
    pub(crate) status: i16,
    pub(crate) headers: Vec<u8>,
    pub(crate) body: Bytes,
}

/// A record as a look finds it.
pub struct StoredRecord {
    /// The operation that wrote it.
    pub(crate) operation: String,
    pub(crate) record: Record,
}

/// Why a stored record cannot be replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error("the record has format {0}, this version reads {FORMAT}")]
    Format(i16),
    #[error("the record's fingerprint was made by a rule that this handler does not have")]
    FingerprintRule,
    #[error("the record's status {0} is not an HTTP status")]
    Status(i16),
    #[error("the record's headers do not decode")]
    Headers,
}

impl Record {
    /// The record of a response: its status, every end-to-end header in order with repeats, its body.
    /// `None` if a header is longer than 4 GiB, the limit of the encoding.
    pub(crate) fn new(
        fingerprint: Vec<u8>,
        status: StatusCode,
        headers: &HeaderMap,
        body: Bytes,
        set_cookie: SetCookie,
    ) -> Option<Self> {
        let status = i16::try_from(status.as_u16()).ok()?;
        Some(Self { fingerprint, format: FORMAT, status, headers: encode(headers, set_cookie)?, body })
    }

    /// The record of a consumer's value.
    pub(crate) fn of_value(fingerprint: Vec<u8>, json: Vec<u8>) -> Self {
        Self { fingerprint, format: VALUE, status: 0, headers: Vec::new(), body: json.into() }
    }

    /// A consumer's value as JSON; `None` if the record has another format.
    pub(crate) fn value(&self) -> Option<&[u8]> {
        (self.format == VALUE).then_some(&*self.body)
    }

    /// Decodes the response.
    pub(crate) fn read(self) -> Result<(StatusCode, HeaderMap, Bytes), Unreadable> {
        if self.format != FORMAT {
            return Err(Unreadable::Format(self.format));
        }
        let status = u16::try_from(self.status).ok().and_then(|status| StatusCode::from_u16(status).ok());
        let status = status.ok_or(Unreadable::Status(self.status))?;
        let headers = decode(&self.headers).ok_or(Unreadable::Headers)?;
        Ok((status, headers, self.body))
    }
}

/// Each header as: length of its name, name, length of its value, value. Lengths are 4 bytes, big-endian.
fn encode(headers: &HeaderMap, set_cookie: SetCookie) -> Option<Vec<u8>> {
    let mut encoded = Vec::new();
    for (name, value) in headers {
        if is_not_stored(name, headers) || (name == header::SET_COOKIE && set_cookie == SetCookie::Drop) {
            continue;
        }
        put_field(&mut encoded, name.as_str().as_bytes())?;
        put_field(&mut encoded, value.as_bytes())?;
    }
    Some(encoded)
}

fn decode(mut encoded: &[u8]) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    while !encoded.is_empty() {
        let name = HeaderName::from_bytes(take_field(&mut encoded)?).ok()?;
        let value = HeaderValue::from_bytes(take_field(&mut encoded)?).ok()?;
        headers.append(name, value);
    }
    Some(headers)
}

/// Whether a header belongs to one connection or one message, not to the response: the hop-by-hop headers of RFC 9110,
/// section 7.6.1, framing, and `Date`.
fn is_not_stored(name: &HeaderName, headers: &HeaderMap) -> bool {
    const NAMES: [HeaderName; 8] = [
        header::CONNECTION,
        header::CONTENT_LENGTH,
        header::DATE,
        header::PROXY_AUTHENTICATE,
        header::TE,
        header::TRAILER,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
    ];
    NAMES.contains(name)
        || matches!(name.as_str(), "keep-alive" | "proxy-connection")
        || named_by_connection(name, headers)
}

fn named_by_connection(name: &HeaderName, headers: &HeaderMap) -> bool {
    let lines = headers.get_all(header::CONNECTION).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).any(|option| option.trim().eq_ignore_ascii_case(name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &'static [u8])]) -> HeaderMap {
        let lines = lines.iter().map(|(name, value)| {
            (HeaderName::from_static(name), HeaderValue::from_bytes(value).expect("a header value"))
        });
        let mut map = HeaderMap::new();
        lines.for_each(|(name, value)| {
            map.append(name, value);
        });
        map
    }

    #[test]
    fn b20_the_encoding_is_pinned() {
        let encoded = encode(&headers(&[("location", b"/p/1"), ("x", b"\xff")]), SetCookie::Replay);
        assert_eq!(encoded.as_deref(), Some(&b"\0\0\0\x08location\0\0\0\x04/p/1\0\0\0\x01x\0\0\0\x01\xff"[..]));
    }

    #[test]
    fn b20_the_formats_are_pinned() {
        let response =
            Record::new(vec![1], StatusCode::CREATED, &headers(&[("x", b"1")]), "body".into(), SetCookie::Replay);
        let golden = Record {
            fingerprint: vec![1],
            format: 1,
            status: 201,
            headers: b"\0\0\0\x01x\0\0\0\x011".to_vec(),
            body: Bytes::from_static(b"body"),
        };
        assert!(response == Some(golden));
        let golden = Record {
            fingerprint: vec![4],
            format: 2,
            status: 0,
            headers: Vec::new(),
            body: Bytes::from_static(b"[1]"),
        };
        assert!(Record::of_value(vec![4], b"[1]".to_vec()) == golden);
        assert_eq!(golden.value(), Some(&b"[1]"[..]));
    }

    #[test]
    fn b23_repeats_and_order_survive() {
        let original = headers(&[
            ("set-cookie", b"a=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT"),
            ("link", b"</a>; rel=next"),
            ("set-cookie", b"b=2"),
            ("link", b"</b>; rel=prev"),
            ("content-disposition", b"attachment; filename=\"a, b.pdf\""),
        ]);
        let read = decode(&encode(&original, SetCookie::Replay).expect("encodes")).expect("decodes");
        assert_eq!(original.iter().collect::<Vec<_>>(), read.iter().collect::<Vec<_>>());
    }

    #[test]
    fn b24_hop_by_hop_and_framing_are_not_stored() {
        let original = headers(&[
            ("connection", b"close, X-Once"),
            ("x-once", b"1"),
            ("keep-alive", b"timeout=5"),
            ("transfer-encoding", b"chunked"),
            ("content-length", b"3"),
            ("date", b"now"),
            ("etag", b"\"v1\""),
            ("set-cookie", b"a=1"),
        ]);
        let names = |set_cookie| {
            let read = decode(&encode(&original, set_cookie).expect("encodes")).expect("decodes");
            read.keys().map(|name| name.as_str().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names(SetCookie::Replay), ["etag", "set-cookie"]);
        assert_eq!(names(SetCookie::Drop), ["etag"]);
    }

    #[test]
    fn what_does_not_decode_is_an_error() {
        let record =
            Record::new(Vec::new(), StatusCode::OK, &headers(&[("etag", b"1")]), Bytes::new(), SetCookie::Replay);
        let record = record.expect("a record");
        let mut cut = record.clone();
        cut.headers.pop();
        assert_eq!(cut.read().err(), Some(Unreadable::Headers));
        let newer = Record { format: 9, ..record.clone() };
        assert_eq!(newer.read().err(), Some(Unreadable::Format(9)));
        let odd = Record { status: 7, ..record };
        assert_eq!(odd.read().err(), Some(Unreadable::Status(7)));
    }

    proptest::proptest! {
        #[test]
        fn b23_every_header_survives_in_its_order(
            lines in proptest::collection::vec(("x-[a-z]{1,8}", proptest::collection::vec(32..=126_u8, 0..40)), 0..20),
        ) {
            let mut original = HeaderMap::new();
            for (name, value) in lines {
                let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
                original.append(name, HeaderValue::from_bytes(&value).expect("a value"));
            }
            let read = decode(&encode(&original, SetCookie::Replay).expect("encodes")).expect("decodes");
            proptest::prop_assert_eq!(original.iter().collect::<Vec<_>>(), read.iter().collect::<Vec<_>>());
        }

        #[test]
        fn what_was_not_encoded_is_no_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let _either = decode(&bytes);
        }
    }
}
