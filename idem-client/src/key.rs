//! The key of one logical call: random or the caller's, checked before anything is sent, and never shown.
//! What is shown instead is its digest, which whoever knows the key can compute.

use std::{fmt, sync::Arc};

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use sha2::{Digest as _, Sha256};

use crate::Error;

/// The header that carries the key.
pub(crate) const HEADER: HeaderName = HeaderName::from_static("idempotency-key");

/// The most characters a key may have.
const MAX_LENGTH: usize = 255;

/// How a key is written into the header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyQuoting {
    /// `Idempotency-Key: abc`, which every server known to us understands.
    #[default]
    Bare,
    /// `Idempotency-Key: "abc"`, a string of RFC 9651 as the IETF draft has it. Servers that do not know the draft may take
    /// the quotes for a part of the key.
    Quoted,
}

/// The client's token for one logical call: the same on all of its attempts, and no other call's.
///
/// `Debug` shows the [digest](Self::digest), never the key. To give a call a key of your own, add it to the request:
/// `client.post(url).with_extension(Key::new("order-17")?)`.
#[derive(Clone)]
pub struct Key {
    characters: Arc<str>,
    /// How this key goes out; `None` leaves it to the client.
    spelling: Option<KeyQuoting>,
}

impl Key {
    /// A random key: a UUID, version 4.
    ///
    /// # Panics
    /// If the operating system has no random numbers.
    #[must_use]
    pub fn random() -> Self {
        Self { characters: uuid::Uuid::new_v4().to_string().into(), spelling: None }
    }

    /// A key of your own: 1 to 255 characters of visible ASCII without `"`, `,`, `;` and `\`.
    ///
    /// # Errors
    /// [`Error::KeyMalformed`] for anything else.
    pub fn new(characters: impl Into<String>) -> Result<Self, Error> {
        let characters = characters.into();
        let allowed = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b',' | b';' | b'\\');
        let well = (1..=MAX_LENGTH).contains(&characters.len()) && characters.bytes().all(allowed);
        well.then(|| Self { characters: characters.into(), spelling: None }).ok_or(Error::KeyMalformed)
    }

    /// The characters, without quotes. A secret as much as what it protects: whoever has it can ask for the answer.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.characters
    }

    /// What stands for the key in logs and errors: `sha256:` and the first 16 digits that
    /// `printf %s "$key" | sha256sum` prints.
    #[must_use]
    pub fn digest(&self) -> String {
        let hash = Sha256::digest(self.characters.as_bytes());
        hash.iter().take(8).fold("sha256:".to_owned(), |text, byte| text + &format!("{byte:02x}"))
    }

    /// The key of a header that the caller set, if there is one.
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

    /// The same key with its spelling settled, unless it is already.
    pub(crate) fn with_quoting(self, spelling: KeyQuoting) -> Self {
        Self { spelling: self.spelling.or(Some(spelling)), ..self }
    }

    pub(crate) fn spelling(&self) -> KeyQuoting {
        self.spelling.unwrap_or_default()
    }

    /// The header's value, marked so that `Debug` of the request hides it.
    pub(crate) fn to_header(&self) -> Result<HeaderValue, Error> {
        let line = match self.spelling() {
            KeyQuoting::Bare => HeaderValue::from_str(&self.characters),
            KeyQuoting::Quoted => HeaderValue::try_from(format!("\"{}\"", self.characters)),
        };
        let mut line = line.map_err(|_| Error::KeyMalformed)?;
        line.set_sensitive(true);
        Ok(line)
    }
}

/// Compares the characters; how they are spelt does not count.
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
