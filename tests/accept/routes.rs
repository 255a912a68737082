//! Ways to mount a handler besides `Router::route` with the application's own state.
//! They are in the documentation of `Idempotency` and of the attribute.

use std::sync::Arc;

use axum::{Router, routing::post};
use axum_extra::routing::TypedPath;
use idem_runtime::{Idempotency, idempotent};
use sqlx::{PgConnection, Postgres};

use super::common::{Account, App, Routes};

#[derive(TypedPath, serde::Deserialize)]
#[typed_path("/orders/{id}/payments")]
struct PaymentsOf {
    id: i64,
}

#[idempotent(scope = account)]
async fn pay_order(PaymentsOf { id }: PaymentsOf, account: Account, _tx: &mut PgConnection) -> String {
    format!("{id} {}", account.id)
}

#[idempotent(scope = account)]
async fn pay(account: Account, _tx: &mut PgConnection) -> String {
    account.id.to_string()
}

/// `typed_post` reads the path from the handler's parameters, which the attribute has replaced by one. The path says it too.
fn typed_path() -> Routes {
    Routes::new().route(PaymentsOf::PATH, post(pay_order))
}

fn state_in_an_arc() -> Router<Arc<App>> {
    Router::new().route("/payments", post(pay))
}

/// A router without a state, or with one of another crate.
fn state_of_the_route<S: Clone + Send + Sync + 'static>(idempotency: Idempotency<Postgres>) -> Router<S> {
    Router::new().route("/payments", post(pay).with_state(idempotency))
}
