//! On a method.

#[path = "../common.rs"] mod common;
use common::*;

struct Service;

impl Service {
    #[idempotent(scope = account)]
    async fn pay(&self, tx: &mut PgConnection, account: Account) -> StatusCode {
        let _ = (tx, account);
        StatusCode::OK
    }
}

fn main() {
    let _: Routes = Router::new().route("/", post(Service::pay));
}
