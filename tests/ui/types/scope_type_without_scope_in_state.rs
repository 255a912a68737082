//! A field of the state is no `Scope`.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = idempotency)]
async fn pay(tx: &mut PgConnection, State(App { idempotency }): State<App>) -> StatusCode {
    let _ = (tx, idempotency);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
