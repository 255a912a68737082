//! What a record stores of a request: a versioned digest of method, original path, query and body, and a short digest of each.
//! The rule's number is stored before the digest, so an old record is compared by the rule that made it.

use crate::model::digest::Digest;

/// The rule that made a fingerprint. The number is stored: never change its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// Rules 1 to 3 digest the request as a whole. They are compared, and no longer made.
    WholeBytes = 1,
    WholeJson = 2,
    WholeFunction = 3,
    /// The payload of a message, which is not a request.
    Message = 4,
    Bytes = 5,
    Json = 6,
    Function = 7,
    Form = 8,
}

impl Rule {
    const ALL: [Self; 8] = [
        Self::WholeBytes,
        Self::WholeJson,
        Self::WholeFunction,
        Self::Message,
        Self::Bytes,
        Self::Json,
        Self::Function,
        Self::Form,
    ];

    fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|rule| *rule as u8 == number)
    }

    /// The name under which the digest is made. It is digested too: never change it.
    const fn name(self) -> &'static str {
        match self {
            Self::WholeBytes => "fingerprint bytes",
            Self::WholeJson => "fingerprint json",
            Self::WholeFunction => "fingerprint declared",
            Self::Message => "fingerprint message",
            Self::Bytes => "request by bytes",
            Self::Json => "request by json",
            Self::Function => "request by function",
            Self::Form => "request by form",
        }
    }

    /// Whether the short digests of the parts follow the digest.
    const fn has_parts(self) -> bool {
        matches!(self, Self::Bytes | Self::Json | Self::Function | Self::Form)
    }
}

/// The parts whose short digests are stored, in this order, as a mismatch names them.
const PARTS: [&str; 4] = ["method", "path", "query", "body"];

/// The first bytes of a part's digest: enough to tell a client what differs. The digest of the whole decides.
type ShortDigest = [u8; 4];

/// What a record stores: a rule's number, the digest, and the short digests of the parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    pub(super) rule: Rule,
    pub(super) digest: Digest,
    /// All zero under a rule without parts.
    parts: [ShortDigest; PARTS.len()],
}

impl Fingerprint {
    /// The fingerprint of a message's payload.
    pub(crate) fn of_message(payload: &[u8]) -> Self {
        Self::of_whole(Rule::Message, [payload])
    }

    /// The fingerprint of a message or an event that is compared by its id alone.
    pub(crate) fn of_nothing() -> Self {
        Self::of_message(&[])
    }

    pub(super) fn of_whole<'p>(rule: Rule, parts: impl IntoIterator<Item = &'p [u8]>) -> Self {
        Self { rule, digest: Digest::of(rule.name(), parts), parts: Default::default() }
    }

    pub(super) fn of_parts(rule: Rule, parts: [Digest; PARTS.len()]) -> Self {
        let digest = Digest::of(rule.name(), parts.iter().map(Digest::as_bytes));
        Self { rule, digest, parts: parts.map(|part| part.start()) }
    }

    /// Reads stored bytes; `None` if they are damaged, or made by a rule that this version does not know.
    pub(crate) fn from_bytes(stored: &[u8]) -> Option<Self> {
        let (&rule, rest) = stored.split_first()?;
        let rule = Rule::from_number(rule)?;
        let (digest, rest) = rest.split_at_checked(32)?;
        let parts = match (rule.has_parts(), rest.as_chunks()) {
            (true, (parts, [])) => parts.try_into().ok()?,
            (false, ([], [])) => Default::default(),
            _ => return None,
        };
        Some(Self { rule, digest: Digest::from_slice(digest)?, parts })
    }

    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let parts = if self.rule.has_parts() { self.parts.as_flattened() } else { &[] };
        [&[self.rule as u8], self.digest.as_bytes(), parts].concat()
    }

    /// Where two fingerprints by one rule differ.
    pub(crate) fn differences(&self, other: &Self) -> Differences {
        let mut differences = Differences::UNKNOWN;
        if self.rule == other.rule && self.rule.has_parts() {
            for (index, name) in PARTS.into_iter().enumerate() {
                // What a function returned is not a part of the request that the client could name.
                let name = if self.rule == Rule::Function && name == "body" { "fingerprint" } else { name };
                differences.0[index] = (self.parts[index] != other.parts[index]).then_some(name);
            }
        }
        differences
    }
}

/// The names of the parts in which a request differs from the first one with its key. None if that is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Differences([Option<&'static str>; PARTS.len()]);

impl Differences {
    /// The first request runs in another process, or its record was made by another rule.
    pub(crate) const UNKNOWN: Self = Self([None; PARTS.len()]);

    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        self.0.into_iter().flatten()
    }
}
