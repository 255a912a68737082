//! A lifetime on the transaction.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = account)]
async fn pay(tx: &'static mut PgConnection, account: Account) -> StatusCode {
    let _ = (tx, account);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
