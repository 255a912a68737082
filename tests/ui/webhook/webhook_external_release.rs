//! The effect may have happened.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(webhook, scope = provider, key = event.id, effects = external, on_server_error = release)]
async fn handle(tx: &mut Attempt<Postgres>, provider: Account, event: Event) -> StatusCode {
    let _ = (tx, provider, event);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(handle));
}
