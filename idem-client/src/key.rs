//! The key of one call: random or set by the caller. It is checked before anything is sent.
//! Logs and errors show its digest instead, which anyone who knows the key can compute.

use std::{fmt, sync::Arc};

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use sha2::{Digest as _, Sha256};

use crate::Error;

/// The header that carries the key.
pub(crate) const HEADER: HeaderName = HeaderName::from_static("idempotency-key");

/// The maximum length of a key in characters.
const MAX_LENGTH: usize = 255;

/// Whether the header quotes the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyQuoting {
    /// `Idempotency-Key: abc`. All servers known to the authors accept it. A key with a space, `"`, `,` or `;` is quoted
    /// anyway, because a bare one cannot contain them.
    #[default]
    Bare,
    /// `Idempotency-Key: "abc"`, an RFC 9651 string as in the IETF draft. Servers that do not implement the draft may read
    /// the quotes as a part of the key.
    Quoted,
}

/// The client's token for one call. All attempts of the call send it, and no other call does.
///
/// `Debug` shows the [digest](Self::digest), never the key. To choose the key of a call, add it to the request:
/// `client.post(url).with_extension(Key::new("order-17")?)`. An `Option<Key>` is accepted too; with `None` the call gets a
/// random key.
#[derive(Clone)]
pub struct Key {
    characters: Arc<str>,
    /// How the header writes this key; `None` leaves it to the client.
    quoting: Option<KeyQuoting>,
}

impl Key {
    /// Makes a random key: a version 4 UUID, lower case with hyphens.
    ///
    /// # Panics
    /// If the operating system provides no random numbers.
    #[must_use]
    pub fn random() -> Self {
        Self { characters: uuid::Uuid::new_v4().to_string().into(), quoting: None }
    }

    /// Makes a key from a string: 1 to 255 printable ASCII characters (U+0020 to U+007E), not only spaces. These are the keys
    /// that idem's servers accept.
    ///
    /// # Errors
    /// [`Error::KeyMalformed`] for any other string.
    pub fn new(characters: impl Into<String>) -> Result<Self, Error> {
        let characters = characters.into();
        let printable = characters.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        let blank = characters.bytes().all(|byte| byte == b' ');
        let well = printable && !blank && characters.len() <= MAX_LENGTH;
        well.then(|| Self { characters: characters.into(), quoting: None }).ok_or(Error::KeyMalformed)
    }

    /// Returns the characters, without quotes. Keep them as secret as the response: a request with this key can retrieve
    /// the stored response.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.characters
    }

    /// Returns the name of the key in logs and errors: `sha256:` and the first 16 digits that
    /// `printf %s "$key" | sha256sum` prints.
    #[must_use]
    pub fn digest(&self) -> String {
        let hash = Sha256::digest(self.characters.as_bytes());
        hash.iter().take(8).fold("sha256:".to_owned(), |text, byte| text + &format!("{byte:02x}"))
    }

    /// Reads the key from a header that the caller set.
    pub(crate) fn from_headers(headers: &HeaderMap) -> Result<Option<Self>, Error> {
        let mut lines = headers.get_all(HEADER).iter();
        let Some(line) = lines.next() else { return Ok(None) };
        // White space around the value is not part of it (RFC 9110, section 5.5).
        let line = line.to_str().map_err(|_| Error::KeyMalformed)?.trim_matches([' ', '\t']);
        if lines.next().is_some() {
            return Err(Error::KeyMalformed);
        }
        let (characters, quoting) = match line.strip_prefix('"') {
            Some(rest) => (unquoted(rest).ok_or(Error::KeyMalformed)?, KeyQuoting::Quoted),
            None if needs_quotes(line) => return Err(Error::KeyMalformed),
            None => (line.to_owned(), KeyQuoting::Bare),
        };
        Ok(Some(Self::new(characters)?.with_quoting(quoting)))
    }

    /// Sets the quoting, unless the key already has one.
    pub(crate) fn with_quoting(self, quoting: KeyQuoting) -> Self {
        Self { quoting: self.quoting.or(Some(quoting)), ..self }
    }

    pub(crate) fn quoting(&self) -> KeyQuoting {
        let chosen = self.quoting.unwrap_or_default();
        if needs_quotes(&self.characters) { KeyQuoting::Quoted } else { chosen }
    }

    /// Writes the header's value, marked as sensitive so that `Debug` output of the request hides it.
    pub(crate) fn to_header(&self) -> Result<HeaderValue, Error> {
        let line = match self.quoting() {
            KeyQuoting::Bare => HeaderValue::from_str(&self.characters),
            KeyQuoting::Quoted => {
                let escaped = self.characters.replace('\\', "\\\\").replace('"', "\\\"");
                HeaderValue::try_from(format!("\"{escaped}\""))
            }
        };
        let mut line = line.map_err(|_| Error::KeyMalformed)?;
        line.set_sensitive(true);
        Ok(line)
    }
}

/// Whether a key cannot be written bare.
fn needs_quotes(characters: &str) -> bool {
    characters.contains([' ', '"', ',', ';'])
}

/// Reads the rest of a quoted string (RFC 9651, section 4.2.5) after its first quote. The closing quote must be the end.
fn unquoted(rest: &str) -> Option<String> {
    let mut characters = rest.strip_suffix('"')?.chars();
    let mut read = String::new();
    while let Some(character) = characters.next() {
        read.push(match character {
            '"' => return None,
            '\\' => characters.next().filter(|escaped| matches!(escaped, '"' | '\\'))?,
            other => other,
        });
    }
    Some(read)
}

/// Compares the characters and ignores the quoting.
impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.characters == other.characters
    }
}

impl Eq for Key {}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.digest())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_line(line: &[u8]) -> Result<Option<Key>, Error> {
        Key::from_headers(&HeaderMap::from_iter([(HEADER, HeaderValue::from_bytes(line).unwrap())]))
    }

    #[test]
    fn b78_a_random_key_is_a_uuid_of_version_4() {
        let key = Key::random();
        let uuid = uuid::Uuid::parse_str(key.as_str()).unwrap();
        assert_eq!((uuid.get_version_num(), key.as_str().len()), (4, 36));
        assert_ne!(key, Key::random());
    }

    #[test]
    fn b78_a_callers_line_is_sent_as_it_was_written() {
        for line in [&b"order-17"[..], b"\"order-17\""] {
            let key = of_line(line).unwrap().unwrap().with_quoting(KeyQuoting::default());
            assert_eq!((key.as_str(), key.to_header().unwrap().as_bytes()), ("order-17", line));
        }
        assert!(Key::from_headers(&HeaderMap::new()).unwrap().is_none());
    }

    #[test]
    fn b78_a_key_that_cannot_be_bare_is_quoted() {
        for (characters, line) in
            [("a b", &br#""a b""#[..]), ("a,b", br#""a,b""#), (r"\", br"\"), (r#"a\"b"#, br#""a\\\"b""#)]
        {
            let key = Key::new(characters).unwrap().with_quoting(KeyQuoting::Bare);
            let written = key.to_header().unwrap();
            assert_eq!(written.as_bytes(), line);
            assert_eq!(of_line(line).unwrap().unwrap(), key);
        }
    }

    #[test]
    fn b78_what_no_server_takes_for_one_key_is_refused() {
        for line in [&b""[..], b" ", b"\"", b"\"\"", b"\"a", b"a\"", b"a b", b"a,b", b"a;b", b"\"a\\b\"", b"\xc3\xa9"] {
            assert!(matches!(of_line(line), Err(Error::KeyMalformed)), "{:?}", String::from_utf8_lossy(line));
        }
        assert!(Key::new("k".repeat(255)).is_ok() && Key::new("k".repeat(256)).is_err());
        let mut twice = HeaderMap::new();
        twice.append(HEADER, HeaderValue::from_static("a"));
        twice.append(HEADER, HeaderValue::from_static("a"));
        assert!(Key::from_headers(&twice).is_err());
    }

    #[test]
    fn the_digest_is_what_sha256sum_prints_and_debug_shows_no_more() {
        let key = Key::new("abc").unwrap();
        assert_eq!(key.digest(), "sha256:ba7816bf8f01cfea");
        assert_eq!(format!("{key:?}"), "Key(sha256:ba7816bf8f01cfea)");
        assert_eq!(format!("{:?}", key.to_header().unwrap()), "Sensitive");
    }
}
