//! A misspelled parameter.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = acount)]
async fn pay(tx: &mut PgConnection, account: Account, uri: Uri) -> StatusCode {
    let _ = (tx, account, uri);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
