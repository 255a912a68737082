//! No `&mut` parameter.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = account)]
async fn pay(account: Account, uri: Uri) -> StatusCode {
    let _ = (account, uri);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
