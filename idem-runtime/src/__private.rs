//! The items that an expansion of `#[idempotent]` names, and the types that those items expose.
//! Not a public interface: it changes in any release.

pub use std::{option::Option, result::Result, time::Duration};

pub use axum::response::Response;

pub use crate::{
    __documented as documented,
    app::Idempotency,
    backend::Cause,
    engine::{Panicked, caught, guarded},
    http::{
        call::{Call, Via, scope_of},
        handler_param::{HoldsIdempotency, IdempotencyOn, OnAttempt, OnDatabase, holds, never},
        outcome::{CauseFallback, CauseViaError, Outcome, Probe, outcome},
        run::{Attempts, RunningAttempt},
        tasks::{Finishing, Tasks},
    },
    messages::{
        ConsumeError, Once,
        claim::{Message, Unclaimed, message},
        expansion::{Payload, ResultFallback, ResultProbe, Returned, payload_of},
        value::{Form, form},
    },
    model::{
        handler_options::{HandlerMarker, HandlerOptions, Replay, ScopeRule},
        message_id::{OwnedMessageId, message_id_of},
        options::*,
    },
    openapi::Unnamed,
};

#[cfg(feature = "utoipa")]
pub use crate::openapi::utoipa::{HttpMethod, Operation, Path, marked};
