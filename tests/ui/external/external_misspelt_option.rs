//! `effects` misspelled: an option that belongs to it is no second mistake.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = account, efects = external, store_request)]
async fn pay(attempt: &mut Attempt<Postgres>, account: Account) -> StatusCode {
    let _ = (attempt, account);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
