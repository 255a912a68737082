//! A connection of a database that is not served.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = account, effects = external)]
async fn pay(conn: &mut sqlx::pool::PoolConnection<sqlx::Any>, account: Account) -> StatusCode {
    let _ = (conn, account);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
