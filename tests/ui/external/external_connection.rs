//! The transaction of PostgreSQL in place of the attempt.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = account, effects = external)]
async fn pay(tx: &mut PgConnection, account: Account) -> StatusCode {
    let _ = (tx, account);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
