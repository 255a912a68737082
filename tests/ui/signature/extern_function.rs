//! `extern`.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = account)]
async extern "C" fn pay(tx: &mut PgConnection, account: Account) -> StatusCode {
    let _ = (tx, account);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
