//! The trait of the two kinds of effects, and the disposition: what an outcome means for the writes and for the key.
//! `database` and `external` implement the trait, each from claim to settle.

use std::future::Future;

use axum::response::Response;

use super::{
    outcome::Outcome,
    request::RequestContext,
    response::{BufferedResponse, Settle},
};
use crate::{
    app::{problem::Code, telemetry::ResponseKind},
    backend::{Backend, Cause, ClaimRequest},
    engine::{Panicked, Plans, Refusal, SettleError, Writes},
    model::{handler_options::Policy, options::InProgress, record::Record, record_id::RecordId},
};

/// Where a handler's effects are: [`Database`](super::database::Database) or [`External`](super::external::External).
pub trait Effects: Sized + Send + 'static {
    /// The database with the records.
    type Db: Backend;
    /// The type behind the handler's `&mut` parameter.
    type Param;
    /// What an attempt holds while its body runs.
    type Held: Send + 'static;

    /// Claims the key, if there is one.
    #[doc(hidden)]
    fn claim(
        context: ClaimContext<'_, Self::Db>,
        claim: Option<&ClaimRequest>,
    ) -> impl Future<Output = Result<Self::Held, Refusal>> + Send;

    /// The handler's `&mut` parameter.
    #[doc(hidden)]
    fn param(held: &mut Self::Held) -> &mut Self::Param;

    /// Settles what is held.
    #[doc(hidden)]
    fn settle(
        held: Self::Held,
        disposition: Disposition,
        context: &RequestContext<Self::Db>,
    ) -> impl Future<Output = Settled> + Send;

    /// The code of the response for an attempt that did not settle as intended.
    #[doc(hidden)]
    #[must_use]
    fn code(code: Code) -> Code {
        code
    }
}

/// What a claim depends on besides the key.
pub struct ClaimContext<'r, Db: Backend> {
    pub(super) request: &'r RequestContext<Db>,
    pub(super) in_progress: InProgress,
    pub(super) plans: Plans,
    /// The encoded request, if the handler stores it.
    pub(super) stored_request: Option<Vec<u8>>,
}

/// What an outcome means for the writes and for the key.
pub enum Disposition {
    /// Roll back and run again. The response is sent if nothing can run again.
    RunAgain(Response),
    /// Roll everything back and free the key: a passing fault is no result. The response is sent if there is no key.
    Unavailable(Response),
    /// Roll everything back, free the key, and send this.
    Release(Response),
    /// Send this, a failure without a `Settle`: `on_server_error` decides.
    Failed(Response),
    /// Send this, a 4xx without a `Settle`: `on_client_error` decides.
    Rejected(Response),
    /// Store this, with or without the handler's writes.
    Store(Writes, Response),
}

/// The response to send, or why the attempt did not settle as intended.
pub(crate) type Settled = Result<(Response, ResponseKind), SettleError>;

impl Disposition {
    /// Decides by the database error behind the outcome, else by the response's [`Settle`], else by its status.
    pub(super) fn of<Db: Backend>(outcome: Outcome, context: &RequestContext<Db>) -> Self {
        let (response, cause) = match outcome.0 {
            Ok(ended) => ended,
            // A failure, even if the application renders it with another status.
            Err(Panicked) => return Self::Failed(context.problem(Code::HandlerPanicked)),
        };
        match response.extensions().get() {
            _ if matches!(cause, Cause::Conflict | Cause::StalePlan) => Self::RunAgain(response),
            Some(Settle::RunAgain) => Self::RunAgain(response),
            Some(Settle::NothingExecuted) => Self::Release(response),
            None if response.status().is_server_error() && cause == Cause::Passing => Self::Unavailable(response),
            None if response.status().is_server_error() => Self::Failed(response),
            None if response.status().is_client_error() => Self::Rejected(response),
            Some(Settle::KeepWrites | Settle::DropWrites) | None => Self::Store(writes(&response), response),
        }
    }
}

/// What happens to the writes beside a stored response: its [`Settle`] decides, else its status.
pub(crate) fn writes(response: &Response) -> Writes {
    match response.extensions().get() {
        Some(Settle::KeepWrites) => Writes::Keep,
        Some(Settle::DropWrites) => Writes::Drop,
        _ if response.status().is_client_error() || response.status().is_server_error() => Writes::Drop,
        _ => Writes::Keep,
    }
}

/// A response as it is stored, and as it is sent.
pub(crate) async fn storable(
    response: Response,
    id: &RecordId,
    fingerprint: Vec<u8>,
    policy: Policy,
) -> Result<(Record, BufferedResponse), Code> {
    let response = BufferedResponse::of(response, policy.max_response).await?;
    let record = response.record(id, fingerprint, policy.set_cookie)?;
    Ok((record, response))
}
