//! An opaque return type that is no response.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = account)]
async fn pay(tx: &mut PgConnection, account: Account) -> Result<impl IntoResponse, std::fmt::Error> {
    let _ = (tx, account);
    if account_closed() {
        return Err(std::fmt::Error);
    }
    Ok(StatusCode::OK)
}

fn account_closed() -> bool {
    true
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
