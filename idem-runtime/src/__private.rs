//! All that an expansion of `#[idempotent]` may name, and nothing else. Not for people.

pub use axum::response::Response;

pub use crate::{
    call::{
        Attempts, ByError, ByNothing, Call, Claim, Lent, OnDatabase, Outcome, Panicked, Probe, Tasks, Transient, Via,
        caught, outcome, scope_of,
    },
    policy::{
        Fingerprint, Handler, InProgress, Isolation, KeyFormat, KeyPresence, Methods, Mismatch, OnServerError,
        ScopeRule, SetCookie,
    },
};
