//! A pool beside the transaction.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = account)]
async fn pay(tx: &mut PgConnection, State(pool): State<PgPool>, account: Account) -> StatusCode {
    let _ = (tx, pool, account);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
