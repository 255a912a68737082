//! `cfg` on parameters: a mistake in the variant that stands, and in that one alone.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = account, effects = external)]
async fn pay(
    #[cfg(not(test))] _tx: &mut PgConnection,
    #[cfg(test)] attempt: &mut Attempt<Postgres>,
    account: Account,
) -> StatusCode {
    let _ = account;
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
