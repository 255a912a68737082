//! The same without `debug_handler`: only axum sees the state, at the route.

#[path = "../common.rs"] mod common;
use common::*;

#[derive(Clone)]
pub struct Bare;

#[idempotent(scope = account)]
async fn pay(tx: &mut PgConnection, State(bare): State<Bare>, account: Account) -> StatusCode {
    let _ = (tx, bare, account);
    StatusCode::OK
}

fn main() {
    let _: Router<Bare> = Router::new().route("/", post(pay));
}
