//! Not a value of `replay`.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(webhook, scope = provider, key = event.id, replay = all)]
async fn handle(tx: &mut PgConnection, provider: Account, event: Event) -> StatusCode {
    let _ = (tx, provider, event);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(handle));
}
