//! A safe method: nothing of it could be done twice.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = account, methods = [POST, GET])]
async fn pay(tx: &mut PgConnection, account: Account) -> StatusCode {
    let _ = (tx, account);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
