//! More than a hundred years.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = account, retention = "36501d")]
async fn pay(tx: &mut PgConnection, account: Account) -> StatusCode {
    let _ = (tx, account);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
