//! More extractors than axum takes.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = account)]
async fn pay(tx: &mut PgConnection, account: Account, _: Uri, _: Uri, _: Uri, _: Uri, _: Uri, _: Uri, _: Uri, _: Uri, _: Uri, _: Uri, _: Uri, _: Uri, _: Uri, _: Uri, _: Uri, seventeenth: Method) -> StatusCode {
    let _ = (tx, account, seventeenth);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
