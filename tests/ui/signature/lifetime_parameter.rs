//! With a lifetime parameter.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = account)]
async fn pay<'t>(tx: &'t mut PgConnection, account: Account) -> StatusCode {
    let _ = (tx, account);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
