//! A misspelled option.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = account, retenton = "24h")]
async fn pay(tx: &mut PgConnection, account: Account) -> StatusCode {
    let _ = (tx, account);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
