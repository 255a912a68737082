//! The user's own body is linted as without us.
#![deny(unused_variables)]

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = account)]
async fn pay(tx: &mut PgConnection, account: Account) -> StatusCode {
    let _ = (tx, account);
    let forgotten = 1;
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
