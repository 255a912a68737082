//! A body extractor that is not last.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = account)]
async fn pay(tx: &mut PgConnection, Json(body): Json<i64>, account: Account) -> StatusCode {
    let _ = (tx, body, account);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
