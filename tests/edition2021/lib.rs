//! B92, B99 in edition 2021: captures of `impl Trait`, binding modes, temporaries, prelude.
//! That it compiles without a warning is the test; the accepted handlers of edition 2024 are in `accept`.
#![deny(warnings, rust_2021_compatibility)]

use axum::{
    debug_handler,
    extract::{FromRef, State},
    http::StatusCode,
    response::IntoResponse,
    routing::post,
    Extension, Json, Router,
};
use idem_runtime::{idempotent, Idempotency};
use idem_tests::account::Account;
use sqlx::{PgConnection, Postgres, Sqlite, SqliteConnection, Transaction};

/// The state.
#[derive(Clone, FromRef)]
pub struct App {
    postgres: Idempotency<Postgres>,
    sqlite: Idempotency<Sqlite>,
    currency: &'static str,
}

#[idempotent(scope = account)]
async fn plain(tx: &mut PgConnection, account: Account) -> Result<StatusCode, String> {
    let inserted = sqlx::query("SELECT $1").bind(account.id).execute(tx).await;
    inserted.map(|_| StatusCode::CREATED).map_err(|error| error.to_string())
}

#[idempotent(scope = account)]
async fn opaque(tx: &mut SqliteConnection, account: Account) -> impl IntoResponse {
    let _ = tx;
    (StatusCode::CREATED, account.id.to_string())
}

#[idempotent(scope = account)]
async fn opaque_in_a_result(tx: &mut PgConnection, account: Account) -> Result<impl IntoResponse, StatusCode> {
    let _ = tx;
    Ok(account.id.to_string())
}

#[idempotent(scope = who)]
async fn patterns(
    State(App { currency: ref money, .. }): State<App>,
    Extension(Account { id: mut number }): Extension<Account>,
    who: Account,
    tx: &mut Transaction<'_, Postgres>,
    Json(ref body): Json<Vec<i64>>,
) -> String {
    number += 1;
    let _ = tx;
    format!("{money} {number} {} {}", who.id, body.len())
}

#[idempotent(scope = gen)]
#[debug_handler]
async fn dyn_names(State(app): State<App>, gen: Account, r#async: &mut PgConnection) -> String {
    let _ = (r#async, app);
    gen.id.to_string()
}

/// A consumer, with patterns and a word of edition 2024.
#[idempotent(scope = gen, key = id)]
async fn consumer(
    gen: &Account,
    (ref id, mut number): (String, i64),
    tx: &mut Transaction<'_, Postgres>,
) -> Result<i64, sqlx::Error> {
    number += 1;
    sqlx::query("SELECT $1, $2").bind(gen.id).bind(id).execute(&mut **tx).await?;
    Ok(number)
}

/// What it comes to, which may be found out on another thread.
pub async fn deliver(app: App, account: Account) -> Option<i64> {
    fn sendable<F: std::future::Future + Send>(future: F) -> F {
        future
    }
    let told = sendable(consumer(&app.postgres, &account, ("1".to_owned(), 1))).await;
    told.ok().map(idem_runtime::messages::Once::into_value)
}

#[idempotent(webhook, scope = account, key = id)]
async fn event(account: Account, tx: &mut PgConnection, Json(id): Json<String>) -> StatusCode {
    let _ = (tx, account);
    StatusCode::OK
}

/// Every handler at a route, so that the state is inferred.
pub fn routes() -> Router<App> {
    Router::new()
        .route("/1", post(plain))
        .route("/2", post(opaque))
        .route("/3", post(opaque_in_a_result))
        .route("/4", post(patterns))
        .route("/5", post(dyn_names))
        .route("/6", post(event))
}
