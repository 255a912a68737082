//! The state and the types of the applications under test: SQLite in memory, and a gate in which a handler can be held.

use std::sync::Arc;

use axum::{
    extract::{FromRef, FromRequestParts},
    http::{StatusCode, request::Parts},
};
use idem_runtime::{Builder, Idempotency, Scope, ScopeId};
use serde::{Deserialize, Serialize};
use sqlx::{Sqlite, SqlitePool, sqlite::SqlitePoolOptions};
use tokio::sync::Semaphore;

#[derive(Clone, FromRef)]
pub struct App {
    pub idempotency: Idempotency<Sqlite>,
    pub gate: Gate,
}

/// Where a handler waits that is asked to, for the test to let it go on.
#[derive(Clone)]
pub struct Gate {
    arrived: Arc<Semaphore>,
    open: Arc<Semaphore>,
}

impl Gate {
    fn new() -> Self {
        Self { arrived: Arc::new(Semaphore::new(0)), open: Arc::new(Semaphore::new(0)) }
    }

    /// In a handler.
    pub async fn pass(&self) {
        self.arrived.add_permits(1);
        self.open.acquire().await.expect("an open gate").forget();
    }

    /// In a test: a handler is waiting now.
    pub async fn arrived(&self) {
        self.arrived.acquire().await.expect("an open gate").forget();
    }

    pub fn open(&self) {
        self.open.add_permits(1);
    }
}

/// The application, and its pool, for tests that break it.
pub async fn app(defaults: impl FnOnce(Builder<Sqlite>) -> Builder<Sqlite>) -> (App, SqlitePool) {
    // One connection: each would be a separate database.
    let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await.expect("a database");
    let idempotency = defaults(Idempotency::builder(pool.clone())).build();
    idempotency.migrate().await.expect("tables");
    (App { idempotency, gate: Gate::new() }, pool)
}

/// The account that the header names.
pub struct Account(String);

impl Scope for Account {
    fn scope_id(&self) -> ScopeId {
        ScopeId::new(&self.0)
    }
}

impl aide::OperationInput for Account {}

impl<S: Sync> FromRequestParts<S> for Account {
    type Rejection = StatusCode;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, StatusCode> {
        let name = parts.headers.get("authorization").and_then(|value| value.to_str().ok());
        name.map(|name| Self(name.to_owned())).ok_or(StatusCode::UNAUTHORIZED)
    }
}

/// What every operation under test takes and returns.
#[derive(Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema)]
pub struct Order {
    pub amount: i64,
    /// Whether the handler is to wait in the gate.
    #[serde(default)]
    pub held: bool,
}
