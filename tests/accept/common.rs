//! The application that the accepted handlers belong to.
//! Its state holds an `Idempotency` for each database.

use axum::{Router, extract::FromRef};
use idem_runtime::Idempotency;
pub(super) use idem_tests::account::Account;
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

#[derive(serde::Deserialize)]
pub(super) struct Payment {
    pub(super) amount: i64,
}

pub(super) type Routes = Router<App>;

/// A value's type must be `Send`.
pub(super) fn assert_send<T: Send>(value: T) -> T {
    value
}
