//! `methods = [Post]`: methods are written in capitals.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = account, methods = [Post])]
async fn pay(tx: &mut PgConnection, account: Account) -> StatusCode {
    let _ = (tx, account);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
