//! The transaction beside the attempt.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = account, effects = external)]
async fn pay(tx: &mut PgConnection, attempt: &mut Attempt<Postgres>, account: Account) -> StatusCode {
    let _ = (tx, attempt, account);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
