//! The client's key: one `Idempotency-Key` header line, quoted (RFC 9651 string) or bare, checked before any statement.
//! Its characters are dropped as soon as they are digested.

use std::fmt;

use http::{HeaderMap, HeaderName};

use crate::model::options::KeyFormat;

/// The header that carries the key.
pub(crate) const HEADER: HeaderName = HeaderName::from_static("idempotency-key");

/// The maximum number of characters in a key.
const MAX_LENGTH: usize = 255;

/// The client's token for one logical operation: its characters, without quotes.
#[derive(PartialEq, Eq)]
pub(crate) struct Key(String);

/// Why a request has no usable key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyError {
    /// There is no header line.
    Missing,
    /// There are several lines, or the line is not exactly one key of the required form.
    Malformed,
}

impl Key {
    /// Reads the key of a request.
    pub(crate) fn from_headers(headers: &HeaderMap, format: KeyFormat) -> Result<Self, KeyError> {
        let mut lines = headers.get_all(HEADER).iter();
        let line = lines.next().ok_or(KeyError::Missing)?;
        if lines.next().is_some() {
            return Err(KeyError::Malformed);
        }
        Self::from_line(line.as_bytes(), format).ok_or(KeyError::Malformed)
    }

    fn from_line(line: &[u8], format: KeyFormat) -> Option<Self> {
        let key = match line.first()? {
            b'"' => quoted(line)?,
            _ if format == KeyFormat::Quoted => return None,
            _ => bare(line)?,
        };
        let blank = key.bytes().all(|byte| byte == b' ');
        (!blank && key.len() <= MAX_LENGTH && has_form(&key, format)).then_some(Self(key))
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// Parses a structured-field string without parameters.
fn quoted(line: &[u8]) -> Option<String> {
    let item = sfv::Parser::new(line).parse::<sfv::Item>().ok()?;
    match item.bare_item {
        sfv::BareItem::String(text) if item.params.is_empty() => Some(text.as_str().to_owned()),
        _ => None,
    }
}

/// Accepts visible ASCII without the characters that would end, quote or repeat a structured-field item.
fn bare(line: &[u8]) -> Option<String> {
    let allowed = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b',' | b';');
    if !line.iter().all(allowed) {
        return None;
    }
    String::from_utf8(line.to_vec()).ok()
}

fn has_form(key: &str, format: KeyFormat) -> bool {
    match format {
        KeyFormat::Any | KeyFormat::Quoted => true,
        KeyFormat::Uuid => is_uuid(key),
        KeyFormat::Ulid => is_ulid(key),
    }
}

/// RFC 9562, section 4: 32 hexadecimal digits in groups of 8, 4, 4, 4 and 12.
fn is_uuid(key: &str) -> bool {
    key.len() == 36
        && key.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// The ULID specification: 26 digits of Crockford's base 32; over 128 bits if the first is above 7.
fn is_ulid(key: &str) -> bool {
    let digit =
        |byte: u8| byte.is_ascii_alphanumeric() && !matches!(byte.to_ascii_uppercase(), b'I' | b'L' | b'O' | b'U');
    key.len() == 26 && key.bytes().all(digit) && key.bytes().next().is_some_and(|first| first <= b'7')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(line: &[u8], format: KeyFormat) -> Option<String> {
        Key::from_line(line, format).map(|key| key.0)
    }

    #[test]
    fn b01_quoted_and_bare_are_one_key() {
        assert_eq!(key(b"\"abc\"", KeyFormat::Any), key(b"abc", KeyFormat::Any));
        assert_eq!(key(b"\"abc\"", KeyFormat::Any).as_deref(), Some("abc"));
        assert_eq!(key(br#""a\"b""#, KeyFormat::Any).as_deref(), Some("a\"b"));
        for bad in [&b"\"abc"[..], b"abc\"", b"\"abc\"x", b"\"abc\";v=1", b"\"a\", \"b\"", b"\"a\\b\"", b"\"\"\""] {
            assert_eq!(key(bad, KeyFormat::Any), None, "{:?}", String::from_utf8_lossy(bad));
        }
        assert_eq!(key(b"abc", KeyFormat::Quoted), None);
        assert_eq!(key(b"\"abc\"", KeyFormat::Quoted).as_deref(), Some("abc"));
    }

    #[test]
    fn b02_blank_is_malformed() {
        for blank in [&b""[..], b" ", b"   ", b"\"\"", b"\"   \""] {
            assert_eq!(key(blank, KeyFormat::Any), None, "{:?}", String::from_utf8_lossy(blank));
        }
        assert_eq!(Key::from_headers(&HeaderMap::new(), KeyFormat::Any), Err(KeyError::Missing));
    }

    #[test]
    fn b03_every_other_byte_is_malformed() {
        for byte in (0..=b' ').chain([b'"', b',', b';']).chain(0x7f..=0xff) {
            assert_eq!(key(&[b'a', byte, b'b'], KeyFormat::Any), None, "byte {byte:#04x}");
            if byte != b' ' && byte != b',' && byte != b';' {
                assert_eq!(key(&[b'"', b'a', byte, b'b', b'"'], KeyFormat::Any), None, "quoted byte {byte:#04x}");
            }
        }
    }

    #[test]
    fn b05_the_limit_is_255_characters() {
        let longest = "k".repeat(255);
        assert_eq!(key(longest.as_bytes(), KeyFormat::Any), Some(longest.clone()));
        assert_eq!(key(format!("\"{longest}\"").as_bytes(), KeyFormat::Any), Some(longest.clone()));
        assert_eq!(key(format!("{longest}k").as_bytes(), KeyFormat::Any), None);
        assert_eq!(key(format!("\"{longest}k\"").as_bytes(), KeyFormat::Any), None);
    }

    #[test]
    fn uuid_and_ulid_are_forms() {
        let hyphenated = b"f47ac10b-58cc-4372-a567-0e02b2c3d479";
        let ulid = b"01ARZ3NDEKTSV4RRFFQ69G5FAV";
        assert!(key(hyphenated, KeyFormat::Uuid).is_some() && key(ulid, KeyFormat::Ulid).is_some());
        assert!(key(hyphenated, KeyFormat::Ulid).is_none() && key(ulid, KeyFormat::Uuid).is_none());
        assert!(key(b"f47ac10b58cc4372a5670e02b2c3d479", KeyFormat::Uuid).is_none());
        assert!(key(b"81ARZ3NDEKTSV4RRFFQ69G5FAV", KeyFormat::Ulid).is_none());
        assert!(key(b"01ARZ3NDEKTSV4RRFFQ69G5FAU", KeyFormat::Ulid).is_none());
    }

    proptest::proptest! {
        #[test]
        fn b01_every_bare_key_is_the_same_key_in_quotes(text in "[!#-+\\--:<-~]{1,255}") {
            let quoted = format!("\"{}\"", text.replace('\\', "\\\\"));
            proptest::prop_assert_eq!(key(text.as_bytes(), KeyFormat::Any), Some(text.clone()));
            proptest::prop_assert_eq!(key(quoted.as_bytes(), KeyFormat::Any), Some(text));
        }

        #[test]
        fn b03_whatever_the_line_holds_a_key_is_visible_ascii(
            line in proptest::collection::vec(proptest::num::u8::ANY, 0..300),
        ) {
            if let Some(key) = key(&line, KeyFormat::Any) {
                proptest::prop_assert!((1..=255).contains(&key.len()));
                proptest::prop_assert!(key.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
            }
        }
    }
}
