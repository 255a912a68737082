//! The encoding of a stored response's headers, with limits that a reader holds too: what was damaged must not be sent.
//! Golden bytes in the tests pin the encoding: records outlive releases.

use http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::model::{
    codec::{put_field, take_field},
    options::SetCookie,
};

/// The most header lines of a stored response. (The HTTP library gives up at some thousands more.)
const MAX_LINES: usize = 4096;

/// The most bytes that they encode to.
const MAX_SIZE: usize = 1024 * 1024;

/// Each header as: length of its name, name, length of its value, value. Lengths are 4 bytes, big-endian.
/// `None` if they are over a limit.
pub(crate) fn encode(headers: &HeaderMap, set_cookie: SetCookie) -> Option<Vec<u8>> {
    let mut encoded = Vec::new();
    let mut lines = 0;
    for (name, value) in headers {
        if is_not_stored(name, headers) || (name == header::SET_COOKIE && set_cookie == SetCookie::Drop) {
            continue;
        }
        put_field(&mut encoded, name.as_str().as_bytes())?;
        put_field(&mut encoded, value.as_bytes())?;
        lines += 1;
    }
    (lines <= MAX_LINES && encoded.len() <= MAX_SIZE).then_some(encoded)
}

/// `None` for what `encode` does not make: damaged, over a limit, or with a header of the connection or of the framing.
pub(crate) fn decode(mut encoded: &[u8]) -> Option<HeaderMap> {
    if encoded.len() > MAX_SIZE {
        return None;
    }
    let mut headers = HeaderMap::new();
    while !encoded.is_empty() {
        let name = HeaderName::from_bytes(take_field(&mut encoded)?).ok()?;
        let value = HeaderValue::from_bytes(take_field(&mut encoded)?).ok()?;
        if is_never_stored(&name) || headers.len() == MAX_LINES {
            return None;
        }
        headers.append(name, value);
    }
    Some(headers)
}

fn is_not_stored(name: &HeaderName, headers: &HeaderMap) -> bool {
    is_never_stored(name) || named_by_connection(name, headers)
}

/// Whether a header belongs to one connection or one message, not to the response: the hop-by-hop headers of RFC 9110,
/// section 7.6.1, framing, and `Date`.
fn is_never_stored(name: &HeaderName) -> bool {
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
    NAMES.contains(name) || matches!(name.as_str(), "keep-alive" | "proxy-connection")
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
    fn what_is_never_stored_is_not_read_either() {
        let line = |name: &str| {
            let mut encoded = Vec::new();
            put_field(&mut encoded, name.as_bytes()).expect("a name");
            put_field(&mut encoded, b"5").expect("a value");
            encoded
        };
        assert!(decode(&line("etag")).is_some());
        for name in ["content-length", "transfer-encoding", "connection", "upgrade", "keep-alive", "date"] {
            assert!(decode(&line(name)).is_none(), "{name}");
        }
        let lines = |count: usize| (0..count).flat_map(|at| line(&format!("x-{at}"))).collect::<Vec<_>>();
        assert!(decode(&lines(MAX_LINES)).is_some());
        assert!(decode(&lines(MAX_LINES + 1)).is_none());
        assert!(decode(&lines(30_000)).is_none());
        let long = [(HeaderName::from_static("x"), HeaderValue::from_bytes(&vec![b'x'; MAX_SIZE]).expect("a value"))];
        assert!(encode(&long.into_iter().collect(), SetCookie::Replay).is_none());
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
