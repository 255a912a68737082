//! A parameter of any type that is something.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = account)]
async fn pay(tx: &mut PgConnection, account: Account, any: impl FromRequestParts<App>) -> StatusCode {
    let _ = (tx, account, any);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
