//! SHA-256 over length-prefixed parts, each use under a name of its own.
//! A prefix before every part makes ("ab", "c") and ("a", "bc") differ.

use std::fmt;

use sha2::{Digest as _, Sha256};

/// 32 bytes that stand for what they were made of.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Digest([u8; 32]);

impl Digest {
    /// The digest of `parts` under `name`; equal parts under another name give another digest.
    pub(crate) fn of<'p>(name: &'p str, parts: impl IntoIterator<Item = &'p [u8]>) -> Self {
        let mut hash = Sha256::new();
        for part in std::iter::once(name.as_bytes()).chain(parts) {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        Self(hash.finalize().into())
    }

    /// The digest that a column holds.
    pub(crate) fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest(..)")
    }
}
