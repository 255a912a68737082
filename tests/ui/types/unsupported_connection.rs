//! A connection type that idem does not support.

#[path = "../common.rs"] mod common;
use common::*;

struct Client;

#[idempotent(scope = account)]
async fn pay(tx: &mut Client, account: Account) -> StatusCode {
    let _ = (tx, account);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
