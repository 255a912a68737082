//! The application whose document `utoipa.rs` is about: a handler for each thing that a document can say.
//! Its document is written by `utoipa::path`, as users write theirs.

use axum::{Json, extract::State, http::StatusCode};
use idem_openapi::app::{Account, Gate, Order};
use idem_runtime::{Attempt, idempotent};
use sqlx::{Sqlite, SqliteConnection, Transaction};

type Answer = (StatusCode, Json<Order>);

async fn answer(gate: Gate, order: Order) -> Answer {
    if order.held {
        gate.pass().await;
    }
    (StatusCode::CREATED, Json(order))
}

/// Pays.
#[utoipa::path(
    post,
    path = "/payments",
    request_body = Order,
    responses((status = 201, description = "paid", body = Order), (status = 422, description = "not a payment"))
)]
#[idempotent(scope = account)]
pub(crate) async fn pay(
    account: Account,
    State(gate): State<Gate>,
    tx: &mut SqliteConnection,
    Json(order): Json<Order>,
) -> Answer {
    let _ = tx;
    answer(gate, order).await
}

/// Pays back.
#[idempotent(
    scope = (account, endpoint),
    key = optional,
    key_format = uuid,
    mismatch = 400,
    retention = "30d",
    fingerprint = json,
    in_progress = wait("20ms"),
)]
#[utoipa::path(
    post,
    path = "/payments/{id}/refunds",
    params(("id" = String, Path), ("idempotency-key" = String, Header, description = "by hand")),
    request_body = Order,
    responses((status = 201, description = "refunded", body = Order))
)]
pub(crate) async fn refund(
    State(gate): State<Gate>,
    account: Account,
    tx: &mut Transaction<'_, Sqlite>,
    Json(order): Json<Order>,
) -> Answer {
    let _ = tx;
    answer(gate, order).await
}

/// Charges.
#[utoipa::path(
    post,
    path = "/charges",
    request_body = Order,
    responses((status = 201, description = "charged", body = Order))
)]
#[idempotent(scope = account, effects = external, key_format = ulid)]
pub(crate) async fn charge(
    account: Account,
    attempt: &mut Attempt<Sqlite>,
    State(gate): State<Gate>,
    Json(order): Json<Order>,
) -> Answer {
    let _ = attempt;
    answer(gate, order).await
}

/// Describes; PUT is idempotent by itself.
#[utoipa::path(
    method(patch, put),
    path = "/payments/{id}",
    params(("id" = String, Path)),
    request_body = Order,
    responses((status = 201, description = "described", body = Order))
)]
#[idempotent(scope = account, key_format = quoted)]
pub(crate) async fn r#type(
    account: Account,
    State(gate): State<Gate>,
    tx: &mut SqliteConnection,
    Json(order): Json<Order>,
) -> Answer {
    let _ = tx;
    answer(gate, order).await
}

/// Lists.
#[utoipa::path(get, path = "/payments", responses((status = 200, description = "all")))]
pub(crate) async fn list() {}

/// In no document.
#[idempotent(scope = account)]
pub(crate) async fn undocumented(account: Account, tx: &mut SqliteConnection) {
    let _ = tx;
}
