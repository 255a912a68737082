//! The consumer and the receiver of the README: what it takes for granted, and then its block.
//! The block is what follows the first empty line.

use idem_runtime::{
    Idempotency,
    messages::{ConsumeError, Once},
};

#[idempotent(scope = queue, key = message.id, retention = "14d")]
async fn ship(queue: &str, message: &Message, tx: &mut PgConnection) -> Result<i64, sqlx::Error> {
    let insert = sqlx::query_scalar("INSERT INTO shipments (queue, address) VALUES ($1, $2) RETURNING id");
    insert.bind(queue).bind(&message.address).fetch_one(tx).await
}

async fn deliver(idempotency: &Idempotency<Postgres>, message: Message) {
    match ship(idempotency, "orders", &message).await {
        // Committed, now or before: only here may the queue forget it.
        Ok(Once::Ran(shipment) | Once::AlreadyDone(shipment)) => message.acknowledge(shipment).await,
        // Elsewhere, at this moment: it is delivered again.
        Err(ConsumeError::InProgress) => {}
        // Rolled back, or never begun.
        Err(error) => message.reject(error).await,
    }
}

#[idempotent(webhook, scope = provider, key = event.id, retention = "7d")]
async fn paid(Signed { provider, event }: Signed, tx: &mut PgConnection) -> Result<StatusCode, AppError> {
    let update = sqlx::query("UPDATE orders SET paid = TRUE WHERE id = $1");
    update.bind(event.order).execute(tx).await?;
    Ok(StatusCode::NO_CONTENT)
}

use axum::{
    extract::{FromRequest, Request},
    response::IntoResponse,
};
use idem_runtime::{Scope, ScopeId, idempotent};
use sqlx::{PgConnection, Postgres};

use axum::http::StatusCode;

struct Message {
    id: String,
    address: String,
}

impl Message {
    async fn acknowledge(self, _shipment: i64) {}

    async fn reject(self, _error: ConsumeError<sqlx::Error>) {}
}

struct Provider;

impl Scope for Provider {
    fn scope_id(&self) -> ScopeId {
        ScopeId::new("provider")
    }
}

struct Event {
    id: String,
    order: i64,
}

struct Signed {
    provider: Provider,
    event: Event,
}

impl<S: Sync> FromRequest<S> for Signed {
    type Rejection = StatusCode;

    async fn from_request(_: Request, _: &S) -> Result<Self, StatusCode> {
        Err(StatusCode::UNAUTHORIZED)
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the database failed")]
struct AppError(#[from] sqlx::Error);

impl IntoResponse for AppError {
    fn into_response(self) -> axum::response::Response {
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
    }
}
