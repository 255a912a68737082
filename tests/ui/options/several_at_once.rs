//! Independent mistakes are all reported, each once.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = acount, key = maybe, timeout = "30s", retention = "1h")]
async fn pay(tx: &mut PgConnection, State(pool): State<PgPool>, account: Account) -> StatusCode {
    let _ = (tx, pool, account);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
