//! `scope` itself misspelled.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scpoe = account)]
async fn pay(tx: &mut PgConnection, account: Account) -> StatusCode {
    let _ = (tx, account);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
