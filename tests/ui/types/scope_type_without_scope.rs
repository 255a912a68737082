//! The type is no `Scope`.

#[path = "../common.rs"] mod common;
use common::*;

#[derive(Clone)]
pub struct Visitor;

impl<S: Sync> FromRequestParts<S> for Visitor {
    type Rejection = StatusCode;
    async fn from_request_parts(_: &mut Parts, _: &S) -> Result<Self, StatusCode> {
        Ok(Self)
    }
}

#[idempotent(scope = visitor)]
async fn pay(tx: &mut PgConnection, visitor: Visitor) -> StatusCode {
    let _ = (tx, visitor);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
