//! A type that is no extractor, without `debug_handler`: only axum can say so, at the route.

#[path = "../common.rs"] mod common;
use common::*;

pub struct Cart;

#[idempotent(scope = account)]
async fn pay(tx: &mut PgConnection, cart: Cart, account: Account) -> StatusCode {
    let _ = (tx, cart, account);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
