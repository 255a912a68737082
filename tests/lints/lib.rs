//! B89, B90: ten handlers under the lints that a strict team denies or forbids, in one crate that must stay silent.
//! `cargo clippy -- -D warnings` is the test; that a user's own body is still linted is tested in `ui`.
// What `instrument`, `utoipa::path` and `debug_handler` themselves expand to does not bear these; see `accept` for them.
#![forbid(missing_docs, unsafe_code, unused, non_camel_case_types, unreachable_pub, warnings)]

use axum::{
    Extension, Json,
    extract::{Path, State},
    http::{HeaderMap, StatusCode, request::Parts},
    response::IntoResponse,
};
use bytes::Bytes;
use idem_runtime::idempotent;
use idem_tests::account::Account;
use sqlx::{Error, PgConnection, Postgres, Sqlite, SqliteConnection, Transaction, query};

/// The state.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct App {
    /// What payments are in.
    pub currency: &'static str,
}

/// The plainest.
#[idempotent(scope = account)]
pub async fn plain(tx: &mut PgConnection, account: Account) -> StatusCode {
    match query("SELECT $1").bind(account.id).execute(tx).await {
        Ok(_) => StatusCode::CREATED,
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// With an error.
///
/// # Errors
/// Whatever the database says.
#[idempotent(scope = account)]
pub async fn fallible(tx: &mut PgConnection, account: Account) -> Result<StatusCode, String> {
    match query("SELECT $1").bind(account.id).execute(tx).await {
        Ok(_) => Ok(StatusCode::CREATED),
        Err(error) => Err(error.to_string()),
    }
}

/// Nothing is returned.
#[idempotent(scope = account)]
pub async fn nothing(tx: &mut SqliteConnection, account: Account) {
    drop::<Result<_, Error>>(query("SELECT $1").bind(account.id).execute(tx).await);
}

/// Something is returned.
#[idempotent(scope = account)]
pub async fn opaque(tx: &mut SqliteConnection, account: Account) -> impl IntoResponse {
    query("SELECT $1").bind(account.id).execute(tx).await.map_or(StatusCode::BAD_GATEWAY, |_| StatusCode::CREATED)
}

/// Something in a result.
#[idempotent(scope = account)]
pub async fn opaque_result(tx: &mut PgConnection, account: Account) -> Result<impl IntoResponse, String> {
    match query("SELECT $1").bind(account.id).execute(tx).await {
        Ok(_) => Ok(StatusCode::CREATED),
        Err(error) => Err(error.to_string()),
    }
}

/// Patterns, and every option.
#[idempotent(
    scope = (account, endpoint),
    key = optional,
    key_format = uuid,
    mismatch = 400,
    retention = "1h",
    fingerprint = by_body,
    operation = "patterns",
    in_progress = wait("5s"),
    on_client_error = release,
    on_server_error = release,
    isolation = "serializable",
    max_response = "1MiB",
    methods = [POST],
    set_cookie = drop,
    allow(short_retention)
)]
pub async fn patterns(
    State(App { currency, .. }): State<App>,
    Extension(account): Extension<Account>,
    tx: &mut Transaction<'_, Postgres>,
    Path((id, mut name)): Path<(i64, String)>,
    _: HeaderMap,
    Json(body): Json<Vec<String>>,
) -> String {
    name.push_str(currency);
    drop::<Result<_, Error>>(query("SELECT $1, $2").bind(account.id).bind(id).execute(&mut **tx).await);
    [name, body.concat()].concat()
}

/// What a body is compared by.
fn by_body(_: &Parts, body: &Bytes) -> Vec<u8> {
    body.to_vec()
}

/// With a parameter that is there only sometimes.
#[idempotent(scope = account)]
pub async fn sometimes(
    tx: &mut Transaction<'_, Sqlite>,
    account: Account,
    #[cfg(feature = "headers")] headers: HeaderMap,
) -> StatusCode {
    #[cfg(feature = "headers")]
    drop(headers);
    drop::<Result<_, Error>>(query("SELECT $1").bind(account.id).execute(&mut **tx).await);
    StatusCode::CREATED
}

/// Wildcards, and a raw name.
#[idempotent(scope = r#type)]
pub async fn r#match(tx: &mut PgConnection, _: HeaderMap, r#type: Account, _unused: HeaderMap) -> StatusCode {
    drop::<Result<_, Error>>(query("SELECT $1").bind(r#type.id).execute(tx).await);
    StatusCode::CREATED
}

/// A message.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Message {
    /// Its id.
    pub id: String,
    /// What it says.
    pub body: Vec<u8>,
}

/// Once for each message.
///
/// # Errors
/// Whatever the database says.
#[idempotent(scope = account, key = message.id, payload = message.body, retention = "14d")]
pub async fn consume(tx: &mut PgConnection, account: &Account, message: Message) -> Result<u64, Error> {
    query("SELECT $1, $2").bind(account.id).bind(message.body).execute(tx).await.map(|done| done.rows_affected())
}

/// The same, taken apart.
///
/// # Errors
/// Never.
#[idempotent(scope = account, key = id)]
pub async fn consume_parts(
    tx: &mut Transaction<'_, Sqlite>,
    account: Account,
    Message { id, mut body }: Message,
    _unused: &str,
) -> Result<Vec<u8>, Error> {
    body.extend(id.as_bytes());
    drop::<Result<_, Error>>(query("SELECT $1").bind(account.id).execute(&mut **tx).await);
    Ok(body)
}

/// Once for each event.
#[idempotent(webhook, scope = account, key = event.id, replay = full)]
pub async fn receive(tx: &mut PgConnection, account: Account, Extension(event): Extension<Message>) -> StatusCode {
    drop::<Result<_, Error>>(query("SELECT $1, $2").bind(account.id).bind(event.body).execute(tx).await);
    StatusCode::ACCEPTED
}

/// Used by its module only.
pub mod private {
    use super::{Account, Error, PgConnection, StatusCode, idempotent, query};
    use axum::{Router, extract::FromRef, routing::post};

    /// Private, with an early return.
    #[idempotent(scope = account)]
    async fn hidden(tx: &mut PgConnection, account: Account) -> StatusCode {
        if account.id == 0 {
            return StatusCode::FORBIDDEN;
        }
        drop::<Result<_, Error>>(query("SELECT $1").bind(account.id).execute(tx).await);
        StatusCode::CREATED
    }

    /// Private, and written with the names of the expansion.
    #[idempotent(scope = scope)]
    async fn names(call: &mut PgConnection, scope: Account, result: super::Bytes) -> StatusCode {
        let claim = query("SELECT $1, $2").bind(scope.id).bind(result.to_vec()).execute(call).await;
        claim.map_or(StatusCode::CONFLICT, |_| StatusCode::CREATED)
    }

    /// The routes.
    pub fn routes<S>() -> Router<S>
    where
        S: Clone + Send + Sync + 'static,
        super::Store: FromRef<S>,
    {
        Router::new().route("/hidden", post(hidden)).route("/names", post(names))
    }
}

/// What the state holds.
pub type Store = idem_runtime::Idempotency<Postgres>;
