//! An unknown unit.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = account, max_response = "64KO")]
async fn pay(tx: &mut PgConnection, account: Account) -> StatusCode {
    let _ = (tx, account);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
