//! An option whose value is still to be typed.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = account, retention = )]
async fn pay(tx: &mut PgConnection, account: Account) -> StatusCode {
    let _ = (tx, account);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
