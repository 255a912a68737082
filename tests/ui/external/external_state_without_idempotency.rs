//! A state that holds no `Idempotency`, of a handler with external effects.

#[path = "../common.rs"] mod common;
use common::*;

#[derive(Clone)]
pub struct Bare;

#[idempotent(scope = account, effects = external)]
#[debug_handler]
async fn pay(attempt: &mut Attempt<Postgres>, State(bare): State<Bare>, account: Account) -> StatusCode {
    let _ = (attempt, bare, account);
    StatusCode::OK
}

fn main() {}
