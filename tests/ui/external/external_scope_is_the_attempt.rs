//! `scope` names the attempt.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = attempt, effects = external)]
async fn pay(attempt: &mut Attempt<Postgres>, account: Account) -> StatusCode {
    let _ = (attempt, account);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
