//! An attempt of SQLite with database effects.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = account)]
async fn pay(attempt: &mut Attempt<Sqlite>, account: Account) -> StatusCode {
    let _ = (attempt, account);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
