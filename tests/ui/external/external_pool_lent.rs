//! A pool by `&mut`.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = account, effects = external)]
async fn pay(pool: &mut PgPool, account: Account) -> StatusCode {
    let _ = (pool, account);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
