//! Zero is refused with the permission too.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = account, retention = "0s", allow(short_retention))]
async fn pay(tx: &mut PgConnection, account: Account) -> StatusCode {
    let _ = (tx, account);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
