//! A wrong type in the body.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = account)]
async fn pay(tx: &mut PgConnection, account: Account) -> StatusCode {
    let _ = (tx, account);
    let amount: i64 = "1999";
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
