//! Handlers that a `macro_rules!` writes: what it captures comes in groups without delimiters.
//! Every kind of fragment stands in every place that takes it.
#![allow(unused_parens, reason = "a captured type may have them")]

use axum::{Extension, Json, http::StatusCode, response::IntoResponse, routing::post};
use idem_runtime::{Attempt, idempotent};
use sqlx::{PgConnection, Postgres, Sqlite, Transaction};

use super::common::{Account, Payment, Routes};

pub(super) struct Message {
    id: String,
    body: Vec<u8>,
}

macro_rules! types {
    ($name:ident, $tx:ty, $account:ty, $body:ty, $returned:ty) => {
        #[idempotent(scope = account)]
        pub(super) async fn $name(_tx: $tx, Extension(account): $account, Json(payment): $body) -> $returned {
            (StatusCode::CREATED, format!("{} {}", account.id, payment.amount))
        }
    };
}

types!(whole, &mut PgConnection, Extension<Account>, Json<Payment>, (StatusCode, String));
types!(
    qualified,
    &mut sqlx::Transaction<'_, sqlx::Postgres>,
    axum::Extension<Account>,
    axum::Json<Payment>,
    impl IntoResponse
);
types!(parenthesised, (&mut PgConnection), (Extension<Account>), (Json<Payment>), (StatusCode, String));

macro_rules! behind {
    ($name:ident, $connection:ty, $database:ty) => {
        #[idempotent(scope = account)]
        pub(super) async fn $name(_tx: &mut $connection, account: Account) -> StatusCode {
            if account.id > 0 { StatusCode::CREATED } else { StatusCode::CONFLICT }
        }

        pub(super) mod $name {
            use super::*;

            #[idempotent(scope = account)]
            pub(in super::super) async fn transaction(
                _tx: &mut Transaction<'_, $database>,
                account: Account,
            ) -> String {
                account.id.to_string()
            }

            #[idempotent(scope = account, effects = external)]
            pub(in super::super) async fn external(attempt: &mut Attempt<$database>, account: Account) -> String {
                format!("{} {}", account.id, attempt.key("charge"))
            }
        }
    };
}

behind!(of_postgres, PgConnection, Postgres);
behind!(of_sqlite, sqlx::SqliteConnection, Sqlite);

macro_rules! parts {
    (
        $(#[$meta:meta])* $vis:vis $name:ident ($($pattern:pat, $ty:ty;)*) $body:block
        $scope:expr, $operation:expr, $retention:literal, $methods:tt, $in_progress:expr, $fingerprint:path, $mismatch:tt
    ) => {
        $(#[$meta])*
        #[idempotent(
            scope = $scope, operation = $operation, retention = $retention, methods = $methods,
            in_progress = $in_progress, fingerprint = $fingerprint, mismatch = $mismatch
        )]
        $vis async fn $name($($pattern: $ty),*) -> StatusCode $body
    };
}

parts! {
    /// Documented.
    #[tracing::instrument(skip_all)]
    pub(super) parts (_tx, &mut PgConnection; Extension(account), Extension<Account>;) {
        if account.id > 0 { StatusCode::CREATED } else { StatusCode::CONFLICT }
    }
    account, "parts", "48h", [POST], wait("5s"), super::groups::compared, 400
}

fn compared(_: &axum::http::request::Parts, _: &bytes::Bytes) -> Vec<u8> {
    Vec::new()
}

/// The macro names the type of the caller and the parameter.
macro_rules! accounts {
    ($name:ident, $account:ident, $ty:ty) => {
        #[idempotent(scope = $account)]
        pub(super) async fn $name(_tx: &mut PgConnection, $account: $ty) -> StatusCode {
            StatusCode::CREATED
        }
    };
    ($name:ident, $ty:ty) => {
        #[idempotent(scope = account)]
        pub(super) async fn $name(_tx: &mut PgConnection, account: $ty) -> StatusCode {
            StatusCode::CREATED
        }
    };
}

accounts!(named_account, caller, Account);
accounts!(typed_account, Account);
accounts!(extended_account, Extension<Account>);

macro_rules! consumers {
    ($name:ident, $tx:ty, $source:ty, $message:ty, $returned:ty, $key:expr, $payload:expr) => {
        #[idempotent(scope = source, key = $key, payload = $payload)]
        pub(super) async fn $name(_tx: $tx, source: $source, message: $message) -> $returned {
            Ok(source.len() + message.id.len())
        }
    };
}

consumers!(consume, &mut PgConnection, &str, &Message, Result<usize, sqlx::Error>, message.id, message.body);

pub(super) fn routes() -> Routes {
    let _ = consume;
    Routes::new()
        .route("/whole", post(whole))
        .route("/qualified", post(qualified))
        .route("/parenthesised", post(parenthesised))
        .route("/of_postgres", post(of_postgres))
        .route("/of_postgres/transaction", post(of_postgres::transaction))
        .route("/of_postgres/external", post(of_postgres::external))
        .route("/of_sqlite", post(of_sqlite))
        .route("/of_sqlite/transaction", post(of_sqlite::transaction))
        .route("/of_sqlite/external", post(of_sqlite::external))
        .route("/parts", post(parts))
        .route("/named_account", post(named_account))
        .route("/typed_account", post(typed_account))
        .route("/extended_account", post(extended_account))
}
