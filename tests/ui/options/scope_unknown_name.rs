//! No such parameter; a pattern binds the names there are.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = tenant)]
async fn pay(
    tx: &mut PgConnection,
    Path((shop, item)): Path<(i64, i64)>,
    account: Account,
) -> StatusCode {
    let _ = (tx, shop, item, account);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
