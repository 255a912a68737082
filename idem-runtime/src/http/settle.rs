//! The end of an attempt: what its outcome means for its writes and its key, and the answer once the database has spoken.
//! `settle` takes the claim, so it cannot be settled twice, and returns the response, so none leaves before COMMIT.

use std::time::Instant;

use axum::response::Response;

use crate::{
    app::{
        Idempotency,
        problem::Code,
        telemetry::{Answer, answered},
    },
    backend::Cause,
    engine::{Panicked, Unsettled},
    http::{
        effects::{Effects, Wish, writes},
        outcome::Outcome,
        response::Settle,
    },
    model::handler_options::Policy,
};

/// One attempt's claim. Dropped, it rolls back, or with external effects leaves its record in progress.
pub struct Claim<E: Effects> {
    pub(crate) held: E::Held,
    pub(crate) idempotency: Idempotency<E::Db>,
    pub(crate) operation: &'static str,
    pub(crate) policy: Policy,
    pub(crate) next: Next,
    pub(crate) since: Instant,
}

/// What follows if the transaction loses against others.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Attempt,
    GiveUp,
}

impl<E: Effects> Claim<E> {
    /// What the handler's `&mut` parameter is. A transaction becomes a connection by deref coercion, where one is taken.
    pub fn lent(&mut self) -> &mut E::Lent {
        E::lend(&mut self.held)
    }

    /// Ends the claim. The response is to be sent: what it says is committed. `None`: run again.
    pub async fn settle(self, outcome: Outcome) -> Option<Response> {
        let cause = outcome.cause();
        let wish = self.wish(outcome);
        let Self { held, idempotency, operation, policy, next, since } = self;
        let (response, answer) = match E::end(held, wish, &idempotency, policy).await {
            Ok(sent) => sent,
            Err(Unsettled::Again) if next == Next::Attempt => return None,
            Err(unsettled) => {
                let code = E::answer(code_of(unsettled, cause));
                (idempotency.app.render(code, policy.mismatch), Answer::Problem(code))
            }
        };
        answered(operation, answer, since);
        Some(response)
    }

    /// What the outcome asks for, by the response's mark or else by its status.
    fn wish(&self, outcome: Outcome) -> Wish {
        let (response, cause) = match outcome.0 {
            Ok(ended) => ended,
            // A failure also where the application renders it with another status.
            Err(Panicked) => {
                return Wish::Failed(self.idempotency.app.render(Code::HandlerPanicked, self.policy.mismatch));
            }
        };
        match response.extensions().get() {
            _ if cause == Cause::Conflict => Wish::Again(response),
            Some(Settle::RunAgain) => Wish::Again(response),
            Some(Settle::NothingExecuted) => Wish::Free(response),
            None if response.status().is_server_error() => Wish::Failed(response),
            Some(Settle::KeepWrites | Settle::DropWrites) | None => Wish::Store(writes(&response), response),
        }
    }
}

fn code_of(unsettled: Unsettled, cause: Cause) -> Code {
    match unsettled {
        Unsettled::Again => Code::Contention,
        Unsettled::Aborted => Code::TransactionAborted,
        // Not the handler ended it, but the database.
        Unsettled::Ended if cause == Cause::Unwritable => Code::StoreUnavailable,
        Unsettled::Ended => {
            tracing::error!(
                "the transaction is not the one that was opened, so the answer was not stored: the handler ran COMMIT or \
                 ROLLBACK, changed the search_path, leaked a nested transaction, or had a nested `begin` fail or cancelled"
            );
            Code::TransactionEnded
        }
        Unsettled::Unavailable => Code::StoreUnavailable,
        Unsettled::Schema => Code::Schema,
        Unsettled::Unknown => Code::OutcomeUnknown,
    }
}
