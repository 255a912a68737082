//! A name that cannot be stored as it is.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = account)]
async fn zahlung_für(tx: &mut PgConnection, account: Account) -> StatusCode {
    let _ = (tx, account);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(zahlung_für));
}
