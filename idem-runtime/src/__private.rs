//! All that an expansion of `#[idempotent]` may name, and nothing else. Not for people.

pub use std::time::Duration;

pub use axum::response::Response;

pub use crate::{
    call::{
        Attempts, ByError, ByNothing, Call, Claim, Finishing, Outcome, Panicked, Probe, Tasks, Transient, Via, caught,
        outcome, scope_of,
    },
    connection::{HoldsIdempotency, OnDatabase, holds, never},
    policy::{
        Fingerprint, Handler, InProgress, Isolation, KeyFormat, KeyPresence, Methods, Mismatch, OnServerError,
        ScopeRule, SetCookie,
    },
};
