//! `on_client_error = retry`.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = account, on_client_error = retry)]
async fn pay(tx: &mut PgConnection, account: Account) -> StatusCode {
    let _ = (tx, account);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
