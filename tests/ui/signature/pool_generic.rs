//! A pool written out, deep inside.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = account)]
async fn pay(tx: &mut PgConnection, account: Account, extra: Extension<Option<Pool<Postgres>>>) -> StatusCode {
    let _ = (tx, account, extra);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
