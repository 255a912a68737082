//! A request has a fingerprint.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = provider, key = required, payload = event.body)]
async fn handle(tx: &mut PgConnection, provider: Account, event: Event) -> StatusCode {
    let _ = (tx, provider, event);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(handle));
}
