//! The items that an expansion of `#[idempotent]` names, and the types that those items expose.
//! Not a public interface: it changes in any release.

pub use std::{result::Result, time::Duration};

pub use axum::response::Response;

pub use crate::{
    __documented as documented, Idempotency, NotDone, Once,
    attempts::Attempts,
    call::{Call, EventId, Via, event_id, scope_of},
    connection::{HoldsIdempotency, IdempotencyOn, OnAttempt, OnDatabase, holds, never},
    message::{Came, ElseNoResult, Form, Message, Payload, Returned, Unclaimed, form, message, payload_of},
    openapi::{Declared, Unnamed, declared},
    outcome::{ByError, ByNothing, Cause, Outcome, Panicked, Probe, caught, outcome},
    policy::{
        Fingerprint, Handler, InProgress, Isolation, KeyFormat, KeyPresence, Methods, Mismatch, OnServerError, Replay,
        ScopeRule, SetCookie,
    },
    settle::Claim,
    tasks::{Finishing, Tasks},
};

#[cfg(feature = "utoipa")]
pub use crate::openapi::utoipa::{HttpMethod, Operation, Path, marked};
