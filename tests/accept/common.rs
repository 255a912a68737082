//! The application that the accepted handlers belong to.
//! Its state holds an `Idempotency` for each database.

use axum::{
    Router,
    extract::{FromRef, FromRequestParts},
    http::{StatusCode, request::Parts},
};
use idem_runtime::{Idempotency, Scope, ScopeId};
use sqlx::{Postgres, Sqlite};

#[derive(Clone)]
pub(super) struct App {
    pub(super) postgres: Idempotency<Postgres>,
    pub(super) sqlite: Idempotency<Sqlite>,
    pub(super) currency: Currency,
}

#[derive(Clone)]
pub(super) struct Currency(pub(super) &'static str);

impl FromRef<App> for Idempotency<Postgres> {
    fn from_ref(app: &App) -> Self {
        app.postgres.clone()
    }
}

impl FromRef<App> for Idempotency<Sqlite> {
    fn from_ref(app: &App) -> Self {
        app.sqlite.clone()
    }
}

impl FromRef<App> for Currency {
    fn from_ref(app: &App) -> Self {
        app.currency.clone()
    }
}

/// The authenticated account, as an extractor of its own.
#[derive(Clone)]
pub(super) struct Account {
    pub(super) id: i64,
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

#[derive(serde::Deserialize)]
pub(super) struct Payment {
    pub(super) amount: i64,
}

pub(super) type Routes = Router<App>;

/// A value's type must be `Send`.
pub(super) fn assert_send<T: Send>(value: T) -> T {
    value
}
