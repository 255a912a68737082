//! A state that holds no `Idempotency`.

#[path = "../common.rs"] mod common;
use common::*;

#[derive(Clone)]
pub struct Bare;

#[idempotent(scope = account)]
#[debug_handler]
async fn pay(tx: &mut PgConnection, State(bare): State<Bare>, account: Account) -> StatusCode {
    let _ = (tx, bare, account);
    StatusCode::OK
}

fn main() {}
