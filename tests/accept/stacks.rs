//! Other attributes above and below: `instrument`, `cfg_attr`, `cfg`, lints, documentation.
//! Those that name parameters go to the function that has them.

use axum::{http::StatusCode, routing::post};
use idem_runtime::idempotent;
use sqlx::PgConnection;
use tracing::instrument;

use super::common::{Account, Routes};

#[idempotent(scope = account)]
#[instrument(skip_all, fields(account = account.id))]
async fn instrument_below(tx: &mut PgConnection, account: Account) -> StatusCode {
    let _ = tx;
    StatusCode::OK
}

#[idempotent(scope = account)]
#[cfg_attr(test, tracing::instrument(skip(tx, account), err))]
async fn instrument_if(tx: &mut PgConnection, account: Account) -> Result<StatusCode, String> {
    let _ = (tx, account);
    Ok(StatusCode::OK)
}

#[instrument(skip_all)]
#[idempotent(scope = account)]
async fn instrument_above(tx: &mut PgConnection, account: Account) -> StatusCode {
    let _ = (tx, account);
    StatusCode::OK
}

/// Documented.
///
/// In more than one line.
#[idempotent(scope = account)]
/// And below.
#[allow(unused_variables, reason = "the lint level must hold inside")]
#[cfg(test)]
#[must_use]
#[cfg_attr(test, doc = "conditionally", allow(clippy::unused_async), instrument(skip_all))]
#[inline]
async fn many(tx: &mut PgConnection, account: Account) -> StatusCode {
    let unused = 1;
    StatusCode::OK
}

#[idempotent(scope = account)]
#[cfg(not(test))]
async fn gone(tx: &mut PgConnection, account: Nothing) -> StatusCode {
    StatusCode::OK
}

#[test]
fn all_are_handlers() {
    let routes = Routes::new()
        .route("/1", post(instrument_below))
        .route("/2", post(instrument_if))
        .route("/3", post(instrument_above))
        .route("/4", post(many));
    assert!(routes.has_routes());
}
