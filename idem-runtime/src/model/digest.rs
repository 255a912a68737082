//! SHA-256 over length-prefixed parts, with a name for each use.
//! The prefix of each part makes ("ab", "c") and ("a", "bc") differ.

use std::fmt;

use sha2::{Digest as _, Sha256};

/// A SHA-256 digest.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Digest([u8; 32]);

impl Digest {
    /// Digests `parts` under `name`. Equal parts under different names have different digests.
    pub(crate) fn of<'p>(name: &'p str, parts: impl IntoIterator<Item = &'p [u8]>) -> Self {
        let mut hash = Sha256::new();
        for part in std::iter::once(name.as_bytes()).chain(parts) {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        Self(hash.finalize().into())
    }

    /// Reads a digest from a column; `None` if it does not have 32 bytes.
    pub(crate) fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Its first bytes.
    pub(crate) fn start<const N: usize>(&self) -> [u8; N] {
        std::array::from_fn(|index| self.0[index])
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest(..)")
    }
}
