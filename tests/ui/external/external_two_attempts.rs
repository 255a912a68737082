//! Two `&mut` parameters.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = account, effects = external)]
async fn pay(attempt: &mut Attempt<Postgres>, other: &mut Attempt<Sqlite>, account: Account) -> StatusCode {
    let _ = (attempt, other, account);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
