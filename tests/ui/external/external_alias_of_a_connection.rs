//! An alias hides that it is a transaction: the trait says so.

#[path = "../common.rs"] mod common;
use common::*;

type Tx = PgConnection;

#[idempotent(scope = account, effects = external)]
async fn pay(attempt: &mut Tx, account: Account) -> StatusCode {
    let _ = (attempt, account);
    StatusCode::OK
}

fn main() {}
