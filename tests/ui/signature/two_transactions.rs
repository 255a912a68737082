//! Two `&mut` parameters.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = account)]
async fn pay(tx: &mut PgConnection, other: &mut SqliteConnection, account: Account) -> StatusCode {
    let _ = (tx, other, account);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
