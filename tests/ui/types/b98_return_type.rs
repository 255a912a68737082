//! A return type that is no response.

#[path = "../common.rs"] mod common;
use common::*;

pub struct Receipt;

#[idempotent(scope = account)]
async fn pay(tx: &mut PgConnection, account: Account) -> Receipt {
    let _ = (tx, account);
    Receipt
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
