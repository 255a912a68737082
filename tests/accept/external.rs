//! Handlers with external effects: all that is accepted with the transaction, with the attempt in its place.
//! What they do is tested where the runtime is; here, that they are accepted.

use axum::{
    Extension, Json, debug_handler,
    extract::{Path, State},
    http::{HeaderMap, Method, StatusCode, Uri},
    response::{IntoResponse, Response},
    routing::post,
};
use idem_runtime::{Attempt, idempotent};
use sqlx::{PgConnection, PgPool, Postgres, Sqlite};

use super::common::{Account, App, Currency, Payment, Routes, assert_send};

/// One handler with the options given.
macro_rules! handlers {
    ($($name:ident: ($($options:tt)*),)*) => {
        $(
            #[idempotent(scope = account, effects = external $($options)*)]
            async fn $name(attempt: &mut Attempt<Postgres>, account: Account) -> StatusCode {
                let _ = (attempt, account);
                StatusCode::OK
            }
        )*

        #[test]
        fn options_are_accepted() {
            let routes = Routes::new()
                $(.route(concat!("/", stringify!($name)), post($name)))*
                .route("/database", post(database_written_out));
            assert!(routes.has_routes());
        }
    };
}

handlers! {
    smallest: (),
    trailing_comma: (,),
    lease_seconds: (, lease = "60s"),
    lease_milliseconds: (, lease = "1ms"),
    lease_combined: (, lease = "1m30s250ms"),
    lease_longest: (, lease = "24h"),
    request_stored: (, store_request),
    on_client_error_store: (, on_client_error = store),
    on_server_error_store: (, on_server_error = store),
    on_server_error_reconcile: (, on_server_error = reconcile),
    together: (, store_request, lease = "2m", on_server_error = reconcile),
    all_of_them: (
        , key = optional,
        key_format = uuid,
        mismatch = 400,
        retention = "1h",
        fingerprint = json,
        operation = "all",
        in_progress = wait("5s"),
        on_server_error = reconcile,
        isolation = "serializable",
        max_response = "1MiB",
        methods = [POST],
        set_cookie = drop,
        lease = "60s",
        store_request,
        allow(short_retention),
        crate = ::idem_runtime,
    ),
}

#[idempotent(effects = database, scope = account)]
async fn database_written_out(tx: &mut PgConnection, account: Account) -> StatusCode {
    let _ = (tx, account);
    StatusCode::OK
}

#[derive(Debug, thiserror::Error)]
enum PayError {
    #[error("the card network failed")]
    Network(#[from] NetworkError),
    #[error("the database failed")]
    Database(#[from] sqlx::Error),
}

impl IntoResponse for PayError {
    fn into_response(self) -> Response {
        StatusCode::BAD_GATEWAY.into_response()
    }
}

#[derive(Debug, thiserror::Error)]
#[error("no answer")]
struct NetworkError;

async fn charge(key: String, amount: i64) -> Result<i64, NetworkError> {
    if key.is_empty() { Err(NetworkError) } else { Ok(amount) }
}

async fn insert(tx: &mut PgConnection, charge: i64) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO payments (charge) VALUES ($1)").bind(charge).execute(tx).await.map(drop)
}

/// A helper that takes the attempt on.
async fn charge_twice(attempt: &mut Attempt<Postgres>, amount: i64) -> Result<i64, PayError> {
    let first = charge(attempt.key_at("part", 0).to_string(), amount).await?;
    let second = charge(attempt.key_at("part", 1).to_string(), amount).await?;
    insert(attempt.transaction().await?, first).await?;
    Ok(first + second)
}

#[idempotent(scope = account, effects = external, lease = "60s", store_request, on_server_error = reconcile)]
async fn pay(
    account: Account,
    attempt: &mut Attempt<Postgres>,
    Json(payment): Json<Payment>,
) -> Result<(StatusCode, String), PayError> {
    let charged = charge(attempt.key("charge").to_string(), payment.amount).await?;
    let charged = charged + charge_twice(attempt, payment.amount).await?;
    insert(attempt.transaction().await?, charged).await?;
    sqlx::query("SELECT 1").execute(&mut **attempt.transaction().await?).await?;
    Ok((StatusCode::CREATED, format!("{} {charged}", account.id)))
}

#[idempotent(scope = account, effects = external)]
async fn first(attempt: &mut Attempt<Sqlite>, account: Account, body: String) -> Result<impl IntoResponse, PayError> {
    let charged = charge(assert_send(attempt.key("charge")).to_string(), account.id).await?;
    sqlx::query("SELECT $1").bind(charged).execute(&mut **attempt.transaction().await?).await?;
    Ok((StatusCode::CREATED, [("charged", charged.to_string())], body))
}

#[idempotent(scope = account, effects = external)]
async fn after_the_body(account: Account, Json(payment): Json<Payment>, attempt: &mut Attempt<Postgres>) -> String {
    format!("{} {} {}", attempt.operation(), account.id, payment.amount)
}

#[idempotent(scope = account, effects = external)]
async fn opaque(_attempt: &mut Attempt<Postgres>, account: Account) -> impl IntoResponse {
    account.id.to_string()
}

#[idempotent(scope = account, effects = external)]
async fn nothing(_: &mut Attempt<Postgres>, _account: Account, account: Extension<Account>) {
    let _ = account;
}

#[idempotent(scope = account, effects = external)]
async fn mutable(mut attempt: &mut Attempt<Postgres>, mut account: Account) -> Result<StatusCode, PayError> {
    account.id += 1;
    let lent = &mut attempt;
    insert(lent.transaction().await?, account.id).await?;
    Ok(StatusCode::OK)
}

#[idempotent(scope = account, effects = external)]
async fn destructured(
    State(App { currency, .. }): State<App>,
    Extension(account @ Account { .. }): Extension<Account>,
    attempt: &mut idem_runtime::Attempt<Postgres>,
    Path((id, part)): Path<(i64, String)>,
) -> String {
    format!("{} {} {} {id} {part}", attempt.operation(), currency.0, account.id)
}

#[idempotent(scope = (r#type, endpoint), effects = external)]
async fn r#match(r#fn: &mut Attempt<Postgres>, r#type: Account) -> String {
    format!("{} {}", r#fn.operation(), r#type.id)
}

#[idempotent(scope = scope, effects = external)]
async fn internals(
    call: &mut Attempt<Postgres>,
    scope: Account,
    claim: Method,
    attempts: Uri,
    State(response): State<Currency>,
    Json(attempt): Json<Payment>,
) -> String {
    format!("{} {claim} {attempts} {} {}", call.operation(), response.0, attempt.amount + scope.id)
}

#[idempotent(scope = account, effects = external)]
#[debug_handler(state = App)]
async fn state_written(
    attempt: &mut Attempt<Postgres>,
    State(Currency(currency)): State<Currency>,
    account: Account,
    Json(body): Json<Payment>,
) -> String {
    format!("{} {currency} {} {}", attempt.operation(), account.id, body.amount)
}

#[idempotent(scope = account, effects = external)]
#[axum::debug_handler]
async fn state_inferred(State(app): State<App>, account: Account, attempt: &mut Attempt<Sqlite>) -> String {
    format!("{} {} {}", attempt.operation(), app.currency.0, account.id)
}

#[super::renamed::prelude::idem::idempotent(
    scope = account,
    effects = external,
    lease = "5s",
    on_server_error = reconcile,
    crate = crate::accept::renamed::prelude::idem
)]
#[debug_handler]
async fn renamed(attempt: &mut company_idem::Attempt<Postgres>, account: Account) -> String {
    format!("{} {}", attempt.operation(), account.id)
}

#[idempotent(scope = account, effects = external)]
async fn with_cfg(
    #[cfg(not(test))] attempt: &mut Attempt<Postgres>,
    #[cfg(test)] attempt: &mut Attempt<Sqlite>,
    account: Account,
    #[cfg(test)] headers: HeaderMap,
    #[cfg(not(test))] _nothing: Nothing,
    #[allow(unused_variables)] unused: Method,
) -> String {
    format!("{} {} {}", attempt.operation(), account.id, headers.len())
}

#[idempotent(scope = account, effects = external, allow(pool))]
#[tracing::instrument(skip_all, fields(account = account.id))]
async fn reads_through_a_pool(
    attempt: &mut Attempt<Postgres>,
    State(_reads): State<PgPool>,
    account: Account,
) -> StatusCode {
    let _ = attempt;
    StatusCode::OK
}

/// An extractor of the user's, by chance of the same name.
mod logins {
    use super::{Account, PgConnection, Postgres, StatusCode, idempotent};

    pub(super) type Attempt = axum::Extension<Account>;

    #[idempotent(scope = account, effects = external)]
    pub(super) async fn beside(
        attempt: &mut idem_runtime::Attempt<Postgres>,
        login: Attempt,
        account: Account,
    ) -> StatusCode {
        let _ = (attempt, login, account);
        StatusCode::OK
    }

    #[idempotent(scope = account)]
    pub(super) async fn with_database_effects(tx: &mut PgConnection, login: Attempt, account: Account) -> StatusCode {
        let _ = (tx, login, account);
        StatusCode::OK
    }
}

/// An alias, once for the database of the application.
mod aliased {
    use super::{Account, Postgres, StatusCode, idempotent};

    pub(super) type Attempt = idem_runtime::Attempt<Postgres>;

    #[idempotent(scope = account, effects = external)]
    pub(super) async fn by_alias(attempt: &mut Attempt, account: Account) -> StatusCode {
        let _ = (attempt, account);
        StatusCode::OK
    }
}

#[test]
fn all_are_handlers() {
    let routes = Routes::new()
        .route("/1", post(pay))
        .route("/2", post(first))
        .route("/3", post(after_the_body))
        .route("/4", post(opaque))
        .route("/5", post(nothing))
        .route("/6", post(mutable))
        .route("/7", post(destructured))
        .route("/8", post(r#match))
        .route("/9", post(internals))
        .route("/10", post(state_written))
        .route("/11", post(state_inferred))
        .route("/12", post(renamed))
        .route("/13", post(with_cfg))
        .route("/14", post(reads_through_a_pool))
        .route("/15", post(logins::beside))
        .route("/16", post(logins::with_database_effects))
        .route("/17", post(aliased::by_alias));
    assert!(routes.has_routes());
}
