//! A mistake that only one variant of a `cfg` has.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = account)]
async fn pay(#[cfg(all())] tx: &mut PgConnection, #[cfg(not(all()))] other: u64, account: Account, #[cfg(all())] id: u64) -> StatusCode {
    let _ = (tx, account, id);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
