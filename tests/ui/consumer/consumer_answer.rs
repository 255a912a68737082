//! A response is returned: `webhook` was forgotten.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = source, key = message.id)]
async fn handle(tx: &mut PgConnection, source: Account, message: Message) -> Result<StatusCode, StatusCode> {
    let _ = (tx, source, message);
    Ok(StatusCode::OK)
}

fn main() {
    let _: Routes = Router::new().route("/", post(handle));
}
