//! Two body extractors.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = account)]
async fn pay(tx: &mut PgConnection, account: Account, raw: String, Json(body): Json<i64>) -> StatusCode {
    let _ = (tx, account, raw, body);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
