//! On a function that is not `async`.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = account)]
fn pay(tx: &mut PgConnection, account: Account) -> StatusCode {
    let _ = (tx, account);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
