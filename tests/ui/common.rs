//! The application that the refused handlers belong to: what stands here is right.
//! Its state holds an `Idempotency`; `Account` is a `Scope` and an extractor.
#![allow(dead_code, unused_imports)]

pub use axum::{
    Extension, Json, Router, debug_handler,
    extract::{FromRef, FromRequestParts, Path, State},
    http::{HeaderMap, Method, StatusCode, Uri, request::Parts},
    response::IntoResponse,
    routing::post,
};
pub use idem_runtime::{Attempt, Idempotency, Scope, ScopeId, idempotent};
pub use sqlx::{PgConnection, PgPool, Pool, Postgres, Sqlite, SqliteConnection, SqlitePool, Transaction};

#[derive(Clone)]
pub struct App {
    pub idempotency: Idempotency<Postgres>,
}

impl FromRef<App> for Idempotency<Postgres> {
    fn from_ref(app: &App) -> Self {
        app.idempotency.clone()
    }
}

impl FromRef<App> for PgPool {
    fn from_ref(_: &App) -> Self {
        PgPool::connect_lazy("postgres://localhost").expect("a URL")
    }
}

pub struct Account {
    pub id: i64,
}

impl Scope for Account {
    fn scope_id(&self) -> ScopeId {
        ScopeId::new(self.id.to_be_bytes())
    }
}

impl<S: Sync> FromRequestParts<S> for Account {
    type Rejection = StatusCode;
    async fn from_request_parts(_: &mut Parts, _: &S) -> Result<Self, StatusCode> {
        Err(StatusCode::UNAUTHORIZED)
    }
}

pub type Routes = Router<App>;

#[derive(Clone)]
pub struct Message {
    pub id: String,
    pub part: u64,
    pub body: Vec<u8>,
    pub sent: std::time::SystemTime,
}

impl Message {
    pub fn into_id(self) -> String {
        self.id
    }
}

pub type Event = Message;

impl<S: Sync> FromRequestParts<S> for Message {
    type Rejection = StatusCode;
    async fn from_request_parts(_: &mut Parts, _: &S) -> Result<Self, StatusCode> {
        Err(StatusCode::UNAUTHORIZED)
    }
}
