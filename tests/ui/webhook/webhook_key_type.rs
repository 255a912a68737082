//! What the key gives is no id.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(webhook, scope = provider, key = event.sent)]
async fn handle(tx: &mut PgConnection, provider: Account, event: Event) -> StatusCode {
    let _ = (tx, provider, event);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(handle));
}
