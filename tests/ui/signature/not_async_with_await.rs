//! Not `async`, and its body awaits.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = account)]
fn pay(tx: &mut PgConnection, account: Account) -> StatusCode {
    let _ = account;
    let _ = sqlx::query("SELECT 1").execute(tx).await;
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
