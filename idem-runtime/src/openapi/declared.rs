//! What a document says of one handler, as a number in the type of the handler: whoever has the handler can read it there,
//! so that no list of handlers is kept anywhere. Costs nothing but the type.

use std::marker::PhantomData;

use bytes::Bytes;
use http::request::Parts;

use crate::model::{
    handler_options::{HandlerOptions, ScopeRule},
    options::{FingerprintRule, InProgress, KeyFormat, KeyPresence, Methods, Mismatch},
};

/// What the clients of a handler see of its attribute, and `R`, what it returns.
pub struct Declared<R, const CHOICES: u128>(PhantomData<fn() -> R>);

/// Stands for a return type that cannot be named in a signature.
pub struct Unnamed;

/// Stands for the function of `fingerprint = path`: to a client one is like another.
#[must_use]
pub fn declared(_: &Parts, _: &Bytes) -> Vec<u8> {
    Vec::new()
}

/// The lowest bit of each choice. Zero there: not chosen.
pub(super) mod bit {
    pub(crate) const KEY: u32 = 0;
    pub(crate) const KEY_FORMAT: u32 = 4;
    pub(crate) const MISMATCH: u32 = 8;
    pub(crate) const FINGERPRINT: u32 = 12;
    pub(crate) const METHODS: u32 = 16;
    pub(crate) const BY_ENDPOINT: u32 = 20;
    pub(crate) const OF_EVENTS: u32 = 24;
    pub(crate) const IN_PROGRESS: u32 = 32;
    pub(crate) const RETENTION: u32 = 64;
}

impl HandlerOptions {
    /// Its choices as a number.
    #[must_use]
    pub const fn choices(&self) -> u128 {
        let key = match self.key {
            None => 0,
            Some(KeyPresence::Required) => 1,
            Some(KeyPresence::Optional) => 2,
        };
        let key_format = match self.key_format {
            None => 0,
            Some(KeyFormat::Any) => 1,
            Some(KeyFormat::Quoted) => 2,
            Some(KeyFormat::Uuid) => 3,
            Some(KeyFormat::Ulid) => 4,
        };
        let mismatch = match self.mismatch {
            None => 0,
            Some(Mismatch::Unprocessable) => 1,
            Some(Mismatch::BadRequest) => 2,
        };
        let fingerprint = match self.fingerprint {
            None => 0,
            Some(FingerprintRule::Bytes) => 1,
            Some(FingerprintRule::Json) => 2,
            Some(FingerprintRule::Custom(_)) => 3,
        };
        let methods = match self.methods {
            None => 0,
            Some(Methods::PostAndPatch) => 1,
            Some(Methods::Post) => 2,
            Some(Methods::Patch) => 3,
        };
        let in_progress = match self.in_progress {
            None => 0,
            Some(InProgress::Reject) => 1,
            // At most an hour, in milliseconds.
            Some(InProgress::Wait(longest)) => longest.as_millis() + 2,
        };
        let retention = match self.retention {
            None => 0,
            Some(retention) => retention.seconds as u128,
        };
        key << bit::KEY
            | key_format << bit::KEY_FORMAT
            | mismatch << bit::MISMATCH
            | fingerprint << bit::FINGERPRINT
            | methods << bit::METHODS
            | (matches!(self.scope, ScopeRule::AccountAndEndpoint) as u128) << bit::BY_ENDPOINT
            | (self.replay.is_some() as u128) << bit::OF_EVENTS
            | in_progress << bit::IN_PROGRESS
            | retention << bit::RETENTION
    }
}
