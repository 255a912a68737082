//! A function of another type.

#[path = "../common.rs"] mod common;
use common::*;

fn print(body: &[u8]) -> Vec<u8> {
    body.to_vec()
}

#[idempotent(scope = account, fingerprint = print)]
async fn pay(tx: &mut PgConnection, account: Account) -> StatusCode {
    let _ = (tx, account);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
