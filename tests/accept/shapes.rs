//! Parameters that are there only sometimes by `cfg_attr`, and a state in an `Arc`.
//! Each handler stands at a route, so its extractors and its state are checked.

use std::sync::Arc;

use axum::{
    Router,
    extract::{FromRef, State},
    http::{HeaderMap, StatusCode},
    routing::post,
};
use idem_runtime::{Idempotency, idempotent};
use sqlx::{PgConnection, Postgres};

use super::common::{Account, Routes};

#[idempotent(scope = account)]
async fn never_there(
    _tx: &mut PgConnection,
    account: Account,
    #[cfg_attr(all(), cfg(any()))] _missing: Missing,
) -> String {
    account.id.to_string()
}

#[idempotent(scope = account)]
async fn always_there(
    _tx: &mut PgConnection,
    account: Account,
    #[cfg_attr(any(), cfg(any()), allow(unused_variables))] headers: HeaderMap,
) -> String {
    format!("{} {}", account.id, headers.len())
}

#[idempotent(scope = account)]
async fn nested(
    _tx: &mut PgConnection,
    account: Account,
    #[cfg_attr(all(), cfg_attr(all(), cfg(any())), allow(unused_variables))] _missing: Missing,
    #[cfg(not(any()))]
    #[cfg_attr(all(), cfg(all()))]
    headers: HeaderMap,
) -> String {
    format!("{} {}", account.id, headers.len())
}

#[cfg_attr(all(), cfg_attr(all(), tracing::instrument(skip_all)), cfg_attr(all(), cfg(all())))]
#[idempotent(scope = account)]
async fn instrumented(_tx: &mut PgConnection, account: Account) -> String {
    account.id.to_string()
}

#[cfg_attr(all(), cfg_attr(all(), cfg(any())))]
#[idempotent(scope = account)]
async fn instrumented(_tx: &mut PgConnection, _missing: Missing) -> String {
    String::new()
}

pub(super) fn routes() -> Routes {
    Routes::new()
        .route("/never_there", post(never_there))
        .route("/always_there", post(always_there))
        .route("/nested", post(nested))
        .route("/instrumented", post(instrumented))
}

/// What is not `Clone`.
struct Shared {
    idempotency: Idempotency<Postgres>,
    status: StatusCode,
}

impl FromRef<Shared> for Idempotency<Postgres> {
    fn from_ref(shared: &Shared) -> Self {
        shared.idempotency.clone()
    }
}

#[idempotent(scope = account)]
#[axum::debug_handler]
async fn under_debug_handler(
    _tx: &mut PgConnection,
    State(shared): State<Arc<Shared>>,
    account: Account,
) -> StatusCode {
    if account.id > 0 { shared.status } else { StatusCode::CONFLICT }
}

#[idempotent(scope = account)]
async fn shared(_tx: &mut PgConnection, State(shared): State<Arc<Shared>>, account: Account) -> StatusCode {
    if account.id > 0 { shared.status } else { StatusCode::CONFLICT }
}

fn in_an_arc(shared_state: Shared) -> Router {
    Router::new()
        .route("/shared", post(shared))
        .route("/under_debug_handler", post(under_debug_handler))
        .with_state(Arc::new(shared_state))
}
