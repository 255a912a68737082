//! A `let` without its semicolon.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = account)]
async fn pay(tx: &mut PgConnection, account: Account) -> StatusCode {
    let _ = tx
    let _id = account.id;
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
