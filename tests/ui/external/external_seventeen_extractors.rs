//! More extractors than axum takes.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = account, effects = external)]
async fn pay(attempt: &mut Attempt<Postgres>, account: Account, _: Uri, _: Uri, _: Uri, _: Uri, _: Uri, _: Uri, _: Uri, _: Uri, _: Uri, _: Uri, _: Uri, _: Uri, _: Uri, _: Uri, _: Uri, seventeenth: Method) -> StatusCode {
    let _ = (attempt, account, seventeenth);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
