//! `debug_handler` above: it wants an extractor in place of the transaction, and belongs below.

#[path = "../common.rs"] mod common;
use common::*;

#[debug_handler(state = App)]
#[idempotent(scope = account)]
async fn pay(tx: &mut PgConnection, account: Account) -> StatusCode {
    let _ = (tx, account);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
