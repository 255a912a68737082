//! Every option in each of its forms.
//! What they do is tested where the runtime is; here, that they are accepted.

use axum::{
    extract::State,
    http::{StatusCode, request::Parts},
    routing::post,
};
use bytes::Bytes;
use idem_runtime::idempotent;
use sqlx::PgConnection;

use super::common::{Account, App, Routes};

mod prints {
    use super::{Bytes, Parts};

    pub(super) fn by_path(parts: &Parts, _body: &Bytes) -> Vec<u8> {
        parts.uri.path().as_bytes().to_vec()
    }
}

/// One handler with the options given.
macro_rules! handlers {
    ($($name:ident: ($($options:tt)*),)*) => {
        $(
            #[idempotent($($options)*)]
            async fn $name(tx: &mut PgConnection, account: Account) -> StatusCode {
                let _ = (tx, account);
                StatusCode::OK
            }
        )*

        #[test]
        fn all_are_handlers() {
            let routes = Routes::new()
                $(.route(concat!("/", stringify!($name)), post($name)))*
                .route("/pool", post(pool_allowed))
                .route("/pools", post(pool_and_retention_allowed));
            assert!(routes.has_routes());
        }
    };
}

handlers! {
    smallest: (scope = account),
    trailing_comma: (scope = account,),
    with_endpoint: (scope = (account, endpoint)),
    key_required: (scope = account, key = required),
    key_optional: (key = optional, scope = account),
    format_any: (scope = account, key_format = any),
    format_quoted: (scope = account, key_format = quoted),
    format_uuid: (scope = account, key_format = uuid),
    format_ulid: (scope = account, key_format = ulid),
    mismatch_422: (scope = account, mismatch = 422),
    mismatch_400: (scope = account, mismatch = 400),
    retention_hours: (scope = account, retention = "24h"),
    retention_days: (scope = account, retention = "30d"),
    retention_combined: (scope = account, retention = "1d12h30m5s"),
    retention_longest: (scope = account, retention = "36500d"),
    retention_short: (scope = account, retention = "90s", allow(short_retention)),
    fingerprint_bytes: (scope = account, fingerprint = bytes),
    fingerprint_json: (scope = account, fingerprint = json),
    fingerprint_function: (scope = account, fingerprint = prints::by_path),
    fingerprint_rooted: (scope = account, fingerprint = self::prints::by_path),
    operation_named: (scope = account, operation = "payment.create/v2"),
    in_progress_reject: (scope = account, in_progress = reject),
    in_progress_wait: (scope = account, in_progress = wait("5s")),
    in_progress_wait_ms: (scope = account, in_progress = wait("1m250ms")),
    on_client_error_store: (scope = account, on_client_error = store),
    on_client_error_release: (scope = account, on_client_error = release),
    on_server_error_store: (scope = account, on_server_error = store),
    on_server_error_release: (scope = account, on_server_error = release),
    isolation_committed: (scope = account, isolation = "read committed"),
    isolation_repeatable: (scope = account, isolation = "Repeatable Read"),
    isolation_serializable: (scope = account, isolation = "SERIALIZABLE"),
    max_response_bytes: (scope = account, max_response = 65_536),
    max_response_units: (scope = account, max_response = "64KiB"),
    methods_both: (scope = account, methods = [POST, PATCH]),
    methods_one: (scope = account, methods = [PATCH,]),
    set_cookie_replay: (scope = account, set_cookie = replay),
    set_cookie_drop: (scope = account, set_cookie = drop),
    all_of_them: (
        scope = (account, endpoint),
        key = optional,
        key_format = uuid,
        mismatch = 400,
        retention = "1h",
        fingerprint = json,
        operation = "all",
        in_progress = wait("5s"),
        on_client_error = release,
        on_server_error = release,
        isolation = "serializable",
        max_response = "1MiB",
        methods = [POST],
        set_cookie = drop,
        allow(short_retention),
        crate = ::idem_runtime,
    ),
}

#[idempotent(scope = account, allow(pool))]
async fn pool_allowed(tx: &mut PgConnection, State(_reads): State<PoolOfReads>, account: Account) -> StatusCode {
    let _ = (tx, account);
    StatusCode::OK
}

#[idempotent(scope = account, retention = "1h", allow(pool, short_retention))]
async fn pool_and_retention_allowed(
    tx: &mut PgConnection,
    State(_reads): State<sqlx::PgPool>,
    account: Account,
) -> StatusCode {
    let _ = (tx, account);
    StatusCode::OK
}

#[derive(Clone)]
struct PoolOfReads;

impl axum::extract::FromRef<App> for PoolOfReads {
    fn from_ref(_: &App) -> Self {
        Self
    }
}

impl axum::extract::FromRef<App> for sqlx::PgPool {
    fn from_ref(_: &App) -> Self {
        sqlx::PgPool::connect_lazy("postgres://localhost").expect("a URL")
    }
}
