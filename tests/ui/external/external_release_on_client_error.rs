//! `on_client_error = release` with external effects.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = account, effects = external, on_client_error = release)]
async fn pay(attempt: &mut Attempt<Postgres>, account: Account) -> StatusCode {
    let _ = (attempt, account);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
