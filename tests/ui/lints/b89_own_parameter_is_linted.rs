//! The user's own parameters are linted as without us, once.
#![deny(unused_variables)]

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = account)]
async fn pay(tx: &mut PgConnection, account: Account, uri: Uri) -> StatusCode {
    let _ = (tx, account);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
