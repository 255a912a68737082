//! A mistake under `deny(warnings)` adds no warning.
#![deny(warnings, missing_docs)]

#[path = "../common.rs"] mod common;
use common::*;

use axum::{debug_handler, http::Version};

/// Pays.
#[idempotent(scope = account, key = maybe)]
#[debug_handler]
#[tracing::instrument(skip_all)]
async fn pay(tx: &mut PgConnection, account: Account, version: Version) -> StatusCode {
    let _ = (tx, account, version);
    StatusCode::OK
}

fn main() {
    let _: Routes = Router::new().route("/", post(pay));
}
