//! A handler cannot commit: that takes the transaction itself.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = account)]
async fn pay(tx: &mut Transaction<'_, Postgres>, account: Account) -> StatusCode {
    let _ = account;
    let _ = tx.commit().await;
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
