//! The event has another name.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(webhook, scope = provider, key = evnt.id)]
async fn handle(tx: &mut PgConnection, provider: Account, event: Event) -> StatusCode {
    let _ = (tx, provider, event);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(handle));
}
