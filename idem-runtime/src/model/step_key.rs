//! Step keys: the idempotency keys that the steps of an attempt have in other systems.
//! Golden values in the tests pin them: other systems remember keys across our releases.

use std::{borrow::Cow, fmt};

use http::HeaderValue;

use crate::model::{digest::Digest, record_id::RecordId};

/// The values that an attempt's step keys are derived from.
pub(crate) struct Steps {
    /// The record's primary key, a digest of scope and client key.
    pub(crate) id: RecordId,
    pub(crate) operation: Cow<'static, str>,
}

impl Steps {
    pub(crate) fn key(&self, step: &str) -> StepKey {
        StepKey(Digest::of("step", [self.id.as_bytes(), self.operation.as_bytes(), step.as_bytes()]))
    }

    pub(crate) fn key_at(&self, step: &str, index: u64) -> StepKey {
        let index = index.to_be_bytes();
        let parts = [self.id.as_bytes(), self.operation.as_bytes(), step.as_bytes(), &index];
        StepKey(Digest::of("step at", parts))
    }
}

/// The idempotency key of one step in another system, from [`Attempt::key`](crate::Attempt::key).
///
/// Its string form is 32 lower-case hexadecimal digits. Every processor that we know of accepts that length: the
/// tightest limit is 38 characters; Square accepts 45, Adyen 64, Stripe 255. The key is one half of a SHA-256 digest:
/// neither the client's key nor the scope can be computed from it, but a guess of both can be verified.
///
/// It converts to a header value: `.header("Idempotency-Key", attempt.key("charge"))`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct StepKey(Digest);

impl StepKey {
    /// Returns the key as a UUID, for processors that require one: version 8 of RFC 9562, 36 characters in lower case
    /// with hyphens, such as `6001eab1-a9e2-8d4d-90aa-f4eda100a245`.
    #[must_use]
    pub fn to_uuid(&self) -> String {
        let number = u128::from_be_bytes(self.bytes());
        let number = number & !(0xf << 76) | 0x8 << 76;
        let number = number & !(0x3 << 62) | 0x2 << 62;
        let hex = format!("{number:032x}");
        let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| hex.get(part).unwrap_or_default());
        parts.join("-")
    }

    /// The first half of the digest.
    fn bytes(&self) -> [u8; 16] {
        self.0.as_bytes().first_chunk().copied().unwrap_or_default()
    }
}

impl fmt::Display for StepKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.bytes()))
    }
}

/// Does not show the key, so that logs cannot be joined with the other system's by accident.
impl fmt::Debug for StepKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StepKey(..)")
    }
}

impl From<StepKey> for String {
    fn from(key: StepKey) -> Self {
        key.to_string()
    }
}

impl From<StepKey> for HeaderValue {
    fn from(key: StepKey) -> Self {
        match Self::try_from(key.to_string()) {
            Ok(value) => value,
            Err(_) => unreachable!("hexadecimal digits are a header value"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(scope: &str, key: &str, operation: &'static str) -> Steps {
        Steps {
            id: RecordId::from_slice(Digest::of("key", [scope.as_bytes(), key.as_bytes()]).as_bytes())
                .expect("32 bytes"),
            operation: operation.into(),
        }
    }

    #[test]
    fn b75_step_keys_are_pinned() {
        let steps = steps("ada", "order-1", "create_charge");
        assert_eq!(steps.key("charge").to_string(), "6001eab1a9e27d4d90aaf4eda100a245");
        assert_eq!(steps.key("charge").to_uuid(), "6001eab1-a9e2-8d4d-90aa-f4eda100a245");
        assert_eq!(steps.key_at("charge", 3).to_string(), "ef205df80f1e7a069ca825c026086a40");
        assert_eq!(HeaderValue::from(steps.key("charge")), "6001eab1a9e27d4d90aaf4eda100a245");
    }

    #[test]
    fn b75_step_keys_differ_by_step_index_operation_key_and_scope() {
        let one = steps("ada", "order-1", "create_charge");
        let keys = [
            one.key("charge"),
            one.key("receipt"),
            one.key(""),
            one.key("charge0"),
            one.key_at("charge", 0),
            one.key_at("charge", 1),
            one.key_at("charge", u64::MAX),
            one.key_at("receipt", 1),
            steps("ada", "order-1", "create_charg").key("echarge"),
            steps("ada", "order-1", "refund").key("charge"),
            steps("ada", "order-2", "create_charge").key("charge"),
            steps("grace", "order-1", "create_charge").key("charge"),
        ];
        let texts: std::collections::HashSet<_> = keys.iter().map(ToString::to_string).collect();
        let uuids: std::collections::HashSet<_> = keys.iter().map(StepKey::to_uuid).collect();
        assert_eq!((texts.len(), uuids.len()), (keys.len(), keys.len()));
        for (text, uuid) in texts.iter().zip(&uuids) {
            assert!(text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit()), "{text}");
            assert!(
                uuid.len() == 36 && uuid.as_bytes()[14] == b'8' && b"89ab".contains(&uuid.as_bytes()[19]),
                "{uuid}"
            );
        }
    }

    #[test]
    fn a_step_key_is_not_shown_by_debug() {
        assert_eq!(format!("{:?}", steps("ada", "order-1", "pay").key("charge")), "StepKey(..)");
    }
}
