//! The completing transaction is borrowed, so the handler cannot commit it.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = account, effects = external)]
async fn pay(attempt: &mut Attempt<Postgres>, account: Account) -> StatusCode {
    let _ = account;
    let Ok(tx) = attempt.transaction().await else { return StatusCode::BAD_GATEWAY };
    let _ = tx.commit().await;
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
