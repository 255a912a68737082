//! An `await` that is missing.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = account)]
async fn pay(tx: &mut PgConnection, account: Account) -> Result<StatusCode, StatusCode> {
    let _ = account;
    sqlx::query("SELECT 1").execute(tx).map_err(|_| StatusCode::BAD_GATEWAY)?;
    Ok(StatusCode::OK)
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
