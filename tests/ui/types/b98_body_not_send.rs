//! A body that holds an `Rc` across an `await`.

#[path = "../common.rs"] mod common;
use common::*;

#[idempotent(scope = account)]
async fn pay(tx: &mut PgConnection, account: Account) -> StatusCode {
    let shared = std::rc::Rc::new(account.id);
    let _ = sqlx::query("SELECT 1").execute(tx).await;
    drop(shared);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
