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
    /// `Idempotency-Key: abc`. All servers known to the authors accept it.
    #[default]
    Bare,
    /// `Idempotency-Key: "abc"`, an RFC 9651 string as in the IETF draft. Servers that do not implement the draft may read
    /// the quotes as a part of the key.
    Quoted,
}

/// The client's token for one call. All attempts of the call send it, and no other call does.
///
/// `Debug` shows the [digest](Self::digest), never the key. To choose the key of a call, add it to the request:
/// `client.post(url).with_extension(Key::new("order-17")?)`.
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

    /// Makes a key from a string: 1 to 255 visible ASCII characters without `"`, `,`, `;` and `\`.
    ///
    /// # Errors
    /// [`Error::KeyMalformed`] for any other string.
    pub fn new(characters: impl Into<String>) -> Result<Self, Error> {
        let characters = characters.into();
        let allowed = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b',' | b';' | b'\\');
        let well = (1..=MAX_LENGTH).contains(&characters.len()) && characters.bytes().all(allowed);
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
        let line = line.to_str().map_err(|_| Error::KeyMalformed)?;
        if lines.next().is_some() {
            return Err(Error::KeyMalformed);
        }
        let quoted = line.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        let key = Self::new(quoted.unwrap_or(line))?;
        Ok(Some(key.with_quoting(if quoted.is_some() { KeyQuoting::Quoted } else { KeyQuoting::Bare })))
    }

    /// Sets the quoting, unless the key already has one.
    pub(crate) fn with_quoting(self, quoting: KeyQuoting) -> Self {
        Self { quoting: self.quoting.or(Some(quoting)), ..self }
    }

    pub(crate) fn quoting(&self) -> KeyQuoting {
        self.quoting.unwrap_or_default()
    }

    /// Writes the header's value, marked as sensitive so that `Debug` output of the request hides it.
    pub(crate) fn to_header(&self) -> Result<HeaderValue, Error> {
        let line = match self.quoting() {
            KeyQuoting::Bare => HeaderValue::from_str(&self.characters),
            KeyQuoting::Quoted => HeaderValue::try_from(format!("\"{}\"", self.characters)),
        };
        let mut line = line.map_err(|_| Error::KeyMalformed)?;
        line.set_sensitive(true);
        Ok(line)
    }
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
    fn b78_what_no_server_takes_for_one_key_is_refused() {
        for line in [&b""[..], b" ", b"\"", b"\"\"", b"\"a", b"a\"", b"a b", b"a,b", b"a;b", b"\"a\\\"b\"", b"\xc3\xa9"]
        {
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
