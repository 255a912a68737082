//! The name of the savepoint behind each claim. `ROLLBACK TO` goes to the newest savepoint of a name, so a handler that knew the
//! name could keep what its response rolls back. One name for each process: prepared statements stay the same.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    sync::LazyLock,
};

/// `idem_claim_` and a random number.
pub(super) static SAVEPOINT: LazyLock<String> =
    LazyLock::new(|| format!("idem_claim_{:016x}", RandomState::new().build_hasher().finish()));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_an_identifier_that_stays_the_same() {
        let name = SAVEPOINT.clone();
        assert_eq!((name.len(), name.starts_with("idem_claim_")), (27, true), "{name}");
        assert!(name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric()), "{name}");
        assert_eq!(*SAVEPOINT, name);
    }
}
