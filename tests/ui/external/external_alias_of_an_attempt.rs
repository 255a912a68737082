//! An alias hides that it is an attempt: the trait says so.

#[path = "../common.rs"] mod common;
use common::*;

type Try = Attempt<Postgres>;

#[idempotent(scope = account)]
async fn pay(attempt: &mut Try, account: Account) -> StatusCode {
    let _ = (attempt, account);
    StatusCode::OK
}

fn main() {}
