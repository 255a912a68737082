//! No comma.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = provider, key = event.id, webhook retention = "24h")]
async fn handle(tx: &mut PgConnection, provider: Account, event: Event) -> StatusCode {
    let _ = (tx, provider, event);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(handle));
}
