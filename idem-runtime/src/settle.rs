//! The end of an attempt: what its outcome means for its writes and its key, and the answer once the database has spoken.
//! `settle` takes the claim, so it cannot be settled twice, and returns the response, so none leaves before COMMIT.

use std::time::Instant;

use axum::response::Response;
use sqlx::Transaction;

use crate::{
    Idempotency,
    backend::Backend,
    engine::{self, Unsettled, Writes},
    observe::{Answer, answered},
    outcome::{Cause, Outcome, Panicked},
    policy::{OnServerError, Policy},
    problem::Code,
    response::{Settle, Whole},
};

/// One attempt's claim. Dropped, it rolls back.
pub struct Claim<Db: Backend> {
    pub(crate) held: Held<Db>,
    pub(crate) idempotency: Idempotency<Db>,
    pub(crate) operation: &'static str,
    pub(crate) policy: Policy,
    pub(crate) next: Next,
    pub(crate) since: Instant,
}

/// What an attempt holds besides its transaction.
pub(crate) enum Held<Db: Backend> {
    /// The key of a protected request.
    Key(engine::Claim<Db>),
    Nothing(engine::Open<Db>),
}

/// What follows if the transaction loses against others.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Attempt,
    GiveUp,
}

/// What an outcome asks for.
enum Wish {
    /// Roll back and run again.
    Again,
    /// Roll everything back, free the key, and send this.
    Free(Response),
    /// Store this, with or without the handler's writes.
    Store(Writes, Response),
}

/// What to send, or why the claim did not end as asked.
type Ended = Result<(Response, Answer), Unsettled>;

impl<Db: Backend> Claim<Db> {
    /// The open transaction; a handler that takes the connection gets it by deref coercion.
    pub fn transaction(&mut self) -> &mut Transaction<'static, Db> {
        match &mut self.held {
            Held::Key(claim) => &mut claim.transaction,
            Held::Nothing(open) => &mut open.transaction,
        }
    }

    /// Ends the claim. The response is to be sent: what it says is committed. `None`: run again.
    pub async fn settle(self, outcome: Outcome) -> Option<Response> {
        let cause = outcome.cause();
        let wish = self.wish(outcome);
        let Self { held, idempotency, operation, policy, next, since } = self;
        let ended = match held {
            Held::Key(claim) => end_key(claim, wish, &idempotency, policy).await,
            Held::Nothing(open) => end_open(open, wish).await,
        };
        let (response, answer) = match ended {
            Ok(sent) => sent,
            Err(Unsettled::Again) if next == Next::Attempt => return None,
            Err(unsettled) => {
                let code = code_of(unsettled, cause);
                (idempotency.app.render(code, policy.mismatch), Answer::Problem(code))
            }
        };
        answered(operation, answer, since);
        Some(response)
    }

    /// What the response asks for, by its mark or else by its status.
    fn wish(&self, outcome: Outcome) -> Wish {
        let (response, mark, failed) = match outcome.0 {
            Ok((_, Cause::Conflict)) => return Wish::Again,
            Ok((response, _)) => {
                let mark = response.extensions().get().copied();
                let failed = response.status().is_server_error();
                (response, mark, failed)
            }
            // A failure also where the application renders it with another status.
            Err(Panicked) => (self.idempotency.app.render(Code::HandlerPanicked, self.policy.mismatch), None, true),
        };
        match mark {
            Some(Settle::RunAgain) => Wish::Again,
            Some(Settle::NothingExecuted) => Wish::Free(response),
            Some(Settle::DropWrites) => Wish::Store(Writes::Drop, response),
            None if failed && self.policy.on_server_error == OnServerError::Release => Wish::Free(response),
            None if failed || response.status().is_client_error() => Wish::Store(Writes::Drop, response),
            Some(Settle::KeepWrites) | None => Wish::Store(Writes::Keep, response),
        }
    }
}

async fn end_key<Db: Backend>(
    claim: engine::Claim<Db>,
    wish: Wish,
    idempotency: &Idempotency<Db>,
    policy: Policy,
) -> Ended {
    let (writes, response) = match wish {
        Wish::Again => return Err(again(claim.free().await)),
        Wish::Free(response) => return claim.free().await.map(|()| (response, Answer::Freed)),
        Wish::Store(writes, response) => (writes, response),
    };
    let stored = match Whole::of(response, policy.max_response).await {
        Ok(whole) => whole.record(claim.fingerprint(), policy.set_cookie).map(|record| (record, whole)),
        Err(code) => Err(code),
    };
    match stored {
        Ok((record, whole)) => claim.record(writes, record).await.map(|()| (whole.into_response(), Answer::Stored)),
        Err(code) => {
            let response = idempotency.app.render(code, policy.mismatch);
            claim.free().await.map(|()| (response, Answer::Problem(code)))
        }
    }
}

async fn end_open<Db: Backend>(open: engine::Open<Db>, wish: Wish) -> Ended {
    let (settled, response) = match wish {
        Wish::Again => return Err(again(open.free().await)),
        Wish::Store(Writes::Keep, response) => (open.keep().await, response),
        Wish::Store(Writes::Drop, response) | Wish::Free(response) => (open.free().await, response),
    };
    settled.map(|()| (response, Answer::Unprotected))
}

fn again(freed: Result<(), Unsettled>) -> Unsettled {
    freed.err().unwrap_or(Unsettled::Again)
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
