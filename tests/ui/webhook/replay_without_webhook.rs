//! A retry of a request gets the full response.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = provider, replay = status)]
async fn handle(tx: &mut PgConnection, provider: Account, event: Event) -> StatusCode {
    let _ = (tx, provider, event);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(handle));
}
