//! Generic.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = account)]
async fn pay<T: Send>(tx: &mut PgConnection, account: Account, extra: Extension<T>) -> StatusCode {
    let _ = (tx, account, extra);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
