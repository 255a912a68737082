//! A body extractor in an `Option` that is not last.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = account)]
async fn pay(tx: &mut PgConnection, body: Option<Json<i64>>, account: Account) -> StatusCode {
    let _ = (tx, body, account);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
