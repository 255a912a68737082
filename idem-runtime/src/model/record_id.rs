//! A record's primary key: a digest that identifies the operation, by one of six rules.
//! The rules are stored data: a changed byte would let every stored operation run again. Golden bytes pin each rule.

use std::{fmt, str::FromStr};

use crate::model::{
    digest::Digest,
    endpoint::{Endpoint, without_names},
};

/// The identifier of a record, as lists, logs and [`Idempotency::resolve`](crate::Idempotency::resolve) use it: 64
/// hexadecimal digits. Neither the key nor the scope can be read from it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RecordId(Digest);

impl RecordId {
    /// The rule of `scope = account`: a key belongs to the account.
    pub(crate) fn of_key(scope: &Digest, key: &[u8]) -> Self {
        Self(Digest::of("key", [scope.as_bytes(), key]))
    }

    /// The two rules of `scope = (account, endpoint)`: the same key at another method, route or path is another operation.
    pub(crate) fn of_key_at(scope: &Digest, method: &[u8], endpoint: Endpoint<'_>, key: &[u8]) -> Self {
        let at = |rule, place: &str| Self(Digest::of(rule, [scope.as_bytes(), method, place.as_bytes(), key]));
        match endpoint {
            Endpoint::Route(route) => at("key at route", &without_names(route)),
            Endpoint::Path(path) => at("key at path", path),
        }
    }

    /// The rule of a webhook: one run of each operation for each event of a provider.
    pub(crate) fn of_event(provider: &Digest, operation: &str, event: &[u8]) -> Self {
        Self(Digest::of("event", [provider.as_bytes(), operation.as_bytes(), event]))
    }

    /// The rule of a consumer: one run of each operation for each message of a source.
    pub(crate) fn of_message(source: &Digest, operation: &str, message: &[u8]) -> Self {
        Self(Digest::of("message", [source.as_bytes(), operation.as_bytes(), message]))
    }

    /// The rule of an attempt without a key. No row has this identifier; the attempt derives its step keys from it.
    pub(crate) fn of_attempt_without_key(attempt: &[u8]) -> Self {
        Self(Digest::of("no key", [attempt]))
    }

    /// Reads an identifier from a column; `None` if it does not have 32 bytes.
    pub(crate) fn from_slice(bytes: &[u8]) -> Option<Self> {
        Digest::from_slice(bytes).map(Self)
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecordId({self})")
    }
}

/// Why a string is not a [`RecordId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a record id has 64 hexadecimal digits")]
#[non_exhaustive]
pub struct RecordIdError;

impl FromStr for RecordId {
    type Err = RecordIdError;

    fn from_str(text: &str) -> Result<Self, RecordIdError> {
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(RecordIdError);
        }
        let bytes: Result<Vec<u8>, _> =
            (0..32).map(|at| u8::from_str_radix(text.get(2 * at..2 * at + 2).unwrap_or_default(), 16)).collect();
        bytes.ok().and_then(|bytes| Self::from_slice(&bytes)).ok_or(RecordIdError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::scope::ScopeId;

    fn scope() -> Digest {
        *ScopeId::new("ada").digest().expect("a scope")
    }

    #[test]
    fn b20_the_digest_of_a_scope_is_pinned() {
        let hex = |scope: ScopeId| RecordId(*scope.digest().expect("a scope")).to_string();
        assert_eq!(hex(ScopeId::new("ada")), "b755ab6154829c31ac782b6997c0906b8838694b64c2670f41e4e7491f0be700");
        let shop = ScopeId::new("ada").and("shop");
        assert_eq!(hex(shop), "3c0b530214ce255c8269ec787cfd1590cee55cdbc4850a710de9be524e5efe86");
    }

    #[test]
    fn b20_every_identifier_rule_is_pinned() {
        let scope = scope();
        let attempt: Vec<u8> = (0..16).collect();
        for (id, golden) in [
            (RecordId::of_key(&scope, b"order-1"), "5ceb9ced4867ef6a13a49fae217ac5b8fa11a88e4f71d1a052768bc9ad5027c6"),
            (
                RecordId::of_key_at(&scope, b"POST", Endpoint::Route("/orders/{id}"), b"order-1"),
                "62d8cc85a411739abfc33d4570e2b49f701202d64c5f7113ea379d2fce475f61",
            ),
            (
                RecordId::of_key_at(&scope, b"POST", Endpoint::Path("/orders/7"), b"order-1"),
                "30a3e39b2492d4ac2a919110d25c55205402dd1425fa1c24063c8f7fafd41fd5",
            ),
            (
                RecordId::of_event(&scope, "paid", b"evt_1"),
                "3948fbe319b7d5fc05c1d0188a63179fbfa4a2cbc027937fc868556efdb46bdf",
            ),
            (
                RecordId::of_message(&scope, "send_receipt", b"m-1"),
                "3ed3efc0a2e8d10194ba33922dfeba1fe1bf497100ea24cf3e1ad85576ce4d89",
            ),
            (
                RecordId::of_attempt_without_key(&attempt),
                "fd2188de81101cc76cbbd9b2e30724cf12110a09ffd16130c9ffc61610b4f3be",
            ),
        ] {
            assert_eq!(id.to_string(), golden);
        }
    }

    #[test]
    fn a_record_id_is_read_back_and_nothing_else_is() {
        let id = RecordId::of_key(&scope(), b"order-1");
        assert_eq!(id.to_string().parse(), Ok(id));
        for text in ["", "5ceb", "x", &format!("{id}0"), &id.to_string().replace('5', "é")] {
            assert_eq!(text.parse::<RecordId>(), Err(RecordIdError), "{text}");
        }
    }
}
