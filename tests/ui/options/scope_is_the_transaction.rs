//! `scope` names the transaction.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = tx)]
async fn pay(tx: &mut PgConnection, account: Account) -> StatusCode {
    let _ = (tx, account);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
