//! `webhook` misspelled: no second error that takes it for a consumer.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(webhok, scope = provider, key = event.id)]
async fn handle(tx: &mut PgConnection, provider: Account, event: Event) -> StatusCode {
    let _ = (tx, provider, event);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(handle));
}
