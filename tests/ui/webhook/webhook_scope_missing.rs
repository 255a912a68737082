//! Whose events are they?

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(webhook, key = event.id)]
async fn handle(tx: &mut PgConnection, provider: Account, event: Event) -> StatusCode {
    let _ = (tx, provider, event);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(handle));
}
