//! All that an expansion of `#[idempotent]` may name, and nothing else.
//! Not for people: it changes in any release.

pub use std::time::Duration;

pub use axum::response::Response;

pub use crate::{
    attempts::Attempts,
    call::{Call, Via, scope_of},
    connection::{HoldsIdempotency, OnAttempt, OnDatabase, holds, never},
    outcome::{ByError, ByNothing, Cause, Outcome, Panicked, Probe, caught, outcome},
    policy::{
        Fingerprint, Handler, InProgress, Isolation, KeyFormat, KeyPresence, Methods, Mismatch, OnServerError,
        ScopeRule, SetCookie,
    },
    settle::Claim,
    tasks::{Finishing, Tasks},
};
