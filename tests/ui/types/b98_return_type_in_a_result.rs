//! The error of a `Result` that is no response.

#[path = "../common.rs"] mod common;
use common::*;

pub struct Failure;

#[idempotent(scope = account)]
async fn pay(tx: &mut PgConnection, account: Account) -> Result<StatusCode, Failure> {
    let _ = (tx, account);
    Err(Failure)
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
