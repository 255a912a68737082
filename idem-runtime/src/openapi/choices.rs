//! The number of `declared` read again, over the defaults of the application.
//! What it leaves open is the application's choice, as in `Policy::over`.

use std::time::Duration;

use http::Method;

use super::declared::bit;
use crate::model::{
    handler_options::Policy,
    options::{FingerprintRule, InProgress, KeyFormat, KeyPresence, Methods, Mismatch},
    retention::Retention,
};

/// What of one handler its clients see.
pub(super) struct Choices {
    pub(super) policy: Policy,
    pub(super) by_endpoint: bool,
    /// The key is in the event that a request delivers, and not in the header.
    pub(super) of_events: bool,
}

impl Choices {
    pub(super) fn read(number: u128, mut policy: Policy) -> Self {
        let four = |bit: u32| (number >> bit) & 0xf;
        match four(bit::KEY) {
            1 => policy.key = KeyPresence::Required,
            2 => policy.key = KeyPresence::Optional,
            _ => {}
        }
        match four(bit::KEY_FORMAT) {
            1 => policy.key_format = KeyFormat::Any,
            2 => policy.key_format = KeyFormat::Quoted,
            3 => policy.key_format = KeyFormat::Uuid,
            4 => policy.key_format = KeyFormat::Ulid,
            _ => {}
        }
        match four(bit::MISMATCH) {
            1 => policy.mismatch = Mismatch::Unprocessable,
            2 => policy.mismatch = Mismatch::BadRequest,
            _ => {}
        }
        match four(bit::FINGERPRINT) {
            1 => policy.fingerprint = FingerprintRule::Bytes,
            2 => policy.fingerprint = FingerprintRule::Json,
            3 => policy.fingerprint = FingerprintRule::Custom(super::declared::declared),
            _ => {}
        }
        match four(bit::METHODS) {
            1 => policy.methods = Methods::PostAndPatch,
            2 => policy.methods = Methods::Post,
            3 => policy.methods = Methods::Patch,
            _ => {}
        }
        match low(number >> bit::IN_PROGRESS) {
            0 => {}
            1 => policy.in_progress = InProgress::Reject,
            longest => policy.in_progress = InProgress::Wait(Duration::from_millis(u64::from(longest) - 2)),
        }
        match low(number >> bit::RETENTION) {
            0 => {}
            seconds => policy.retention = Retention { seconds },
        }
        Self { policy, by_endpoint: four(bit::BY_ENDPOINT) != 0, of_events: four(bit::OF_EVENTS) != 0 }
    }

    pub(super) fn protect(&self, method: &Method) -> bool {
        self.of_events || self.policy.methods.protect(method)
    }
}

/// The lowest 32 bits.
#[allow(clippy::cast_possible_truncation)] // that is what it is for
const fn low(number: u128) -> u32 {
    number as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::handler_options::{HandlerOptions, ScopeRule};

    fn read(handler: HandlerOptions) -> Choices {
        Choices::read(handler.choices(), Policy::default())
    }

    #[test]
    fn what_an_attribute_does_not_say_is_the_applications() {
        let handler = HandlerOptions::new("pay", ScopeRule::Account);
        assert_eq!(handler.choices(), 0);
        let application = Policy { key: KeyPresence::Optional, mismatch: Mismatch::BadRequest, ..Policy::default() };
        let choices = Choices::read(0, application);
        assert_eq!((choices.policy.key, choices.policy.mismatch), (KeyPresence::Optional, Mismatch::BadRequest));
        assert!(!choices.by_endpoint && !choices.of_events);
    }

    #[test]
    fn every_choice_is_read_as_it_was_written() {
        let of = |set: fn(HandlerOptions) -> HandlerOptions| {
            read(set(HandlerOptions::new("pay", ScopeRule::AccountAndEndpoint)))
        };
        for key in [KeyPresence::Required, KeyPresence::Optional] {
            assert_eq!(read(HandlerOptions::new("pay", ScopeRule::Account).key(key)).policy.key, key);
        }
        for format in [KeyFormat::Any, KeyFormat::Quoted, KeyFormat::Uuid, KeyFormat::Ulid] {
            assert_eq!(
                read(HandlerOptions::new("pay", ScopeRule::Account).key_format(format)).policy.key_format,
                format
            );
        }
        for mismatch in [Mismatch::Unprocessable, Mismatch::BadRequest] {
            assert_eq!(
                read(HandlerOptions::new("pay", ScopeRule::Account).mismatch(mismatch)).policy.mismatch,
                mismatch
            );
        }
        for methods in [Methods::PostAndPatch, Methods::Post, Methods::Patch] {
            assert_eq!(read(HandlerOptions::new("pay", ScopeRule::Account).methods(methods)).policy.methods, methods);
        }
        for wait in [InProgress::Reject, InProgress::Wait(Duration::ZERO), InProgress::Wait(InProgress::MAX_WAIT)] {
            assert_eq!(read(HandlerOptions::new("pay", ScopeRule::Account).in_progress(wait)).policy.in_progress, wait);
        }
        assert!(matches!(of(|pay| pay.fingerprint(FingerprintRule::Bytes)).policy.fingerprint, FingerprintRule::Bytes));
        assert!(matches!(of(|pay| pay.fingerprint(FingerprintRule::Json)).policy.fingerprint, FingerprintRule::Json));
        let function = of(|pay| pay.fingerprint(FingerprintRule::Custom(super::super::declared::declared)));
        assert!(matches!(function.policy.fingerprint, FingerprintRule::Custom(_)));
        assert_eq!(of(|pay| pay.retention(Retention::MAX.seconds)).policy.retention, Retention::MAX);
        assert!(of(|pay| pay).by_endpoint);
        assert!(read(HandlerOptions::of_events("event")).of_events);
    }
}
