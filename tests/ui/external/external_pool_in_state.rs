//! A pool as an extractor.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = account, effects = external)]
async fn pay(State(pool): State<PgPool>, attempt: &mut Attempt<Postgres>, account: Account) -> StatusCode {
    let _ = (pool, attempt, account);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
