//! More than a day.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = account, effects = external, lease = "25h")]
async fn pay(attempt: &mut Attempt<Postgres>, account: Account) -> StatusCode {
    let _ = (attempt, account);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
