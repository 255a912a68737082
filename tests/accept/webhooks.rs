//! Handlers of events: the key is in an argument, in place of the header.
//! What they do is tested where the runtime is; here, that they are accepted.

use axum::{
    Extension, Json, debug_handler,
    extract::{FromRef, Path, State},
    http::{HeaderMap, StatusCode},
    response::IntoResponse,
    routing::post,
};
use idem_runtime::{Attempt, Scope, ScopeId, idempotent};
use sqlx::{PgConnection, Postgres, SqliteConnection};

use super::common::{App, Currency, Routes};

/// Who sends the events.
#[derive(Clone)]
struct Provider;

impl FromRef<App> for Provider {
    fn from_ref(_: &App) -> Self {
        Self
    }
}

impl Scope for Provider {
    fn scope_id(&self) -> ScopeId {
        ScopeId::new("provider")
    }
}

#[derive(serde::Deserialize)]
struct Event {
    id: Option<String>,
    amount: i64,
}

impl Event {
    fn id(&self) -> &str {
        self.id.as_deref().unwrap_or_default()
    }
}

/// One handler with the options given.
macro_rules! handlers {
    ($($name:ident: ($($options:tt)*),)*) => {
        $(
            #[idempotent(webhook, scope = provider, key = event.id $($options)*)]
            async fn $name(
                tx: &mut PgConnection,
                Extension(provider): Extension<Provider>,
                Json(event): Json<Event>,
            ) -> StatusCode {
                let _ = (tx, event.amount);
                StatusCode::OK
            }
        )*

        #[test]
        fn options_are_accepted() {
            let routes = Routes::new()$(.route(concat!("/", stringify!($name)), post($name)))*;
            assert!(routes.has_routes());
        }
    };
}

handlers! {
    smallest: (),
    trailing_comma: (,),
    replay_status: (, replay = status),
    replay_whole: (, replay = full),
    all_of_them: (
        , replay = full,
        mismatch = 400,
        retention = "30d",
        fingerprint = json,
        operation = "all",
        in_progress = wait("5s"),
        on_client_error = release,
        on_server_error = store,
        isolation = "serializable",
        max_response = "1MiB",
        set_cookie = drop,
        allow(short_retention, pool),
        crate = ::idem_runtime,
    ),
}

#[idempotent(key = event.id(), scope = provider, webhook)]
async fn by_method(
    State(provider): State<Provider>,
    tx: &mut SqliteConnection,
    Json(mut event): Json<Event>,
) -> Result<impl IntoResponse, String> {
    event.amount += 1;
    let _ = (tx, provider);
    Ok((StatusCode::ACCEPTED, event.amount.to_string()))
}

#[idempotent(webhook, scope = provider, key = id)]
#[debug_handler(state = App)]
async fn destructured(
    State(provider): State<Provider>,
    State(Currency(currency)): State<Currency>,
    Path((_, id)): Path<(String, u64)>,
    _tx: &mut PgConnection,
    headers: HeaderMap,
) -> String {
    let _ = provider;
    format!("{currency}{}", headers.len())
}

#[idempotent(webhook, scope = provider, key = event.0.id, effects = external, store_request, lease = "5s", on_server_error = reconcile)]
async fn external(
    attempt: &mut Attempt<Postgres>,
    State(provider): State<Provider>,
    event: Json<Event>,
) -> Result<String, String> {
    let _ = provider;
    Ok(format!("{}{}", attempt.key("charge"), event.amount))
}

/// Parameters with the words of `key`, which are words alone.
#[idempotent(webhook, scope = required, key = optional.id)]
async fn words(_tx: &mut PgConnection, State(required): State<Provider>, Json(optional): Json<Event>) -> String {
    optional.amount.to_string()
}

#[test]
fn all_are_handlers() {
    let routes = Routes::new()
        .route("/1", post(by_method))
        .route("/2/{a}/{b}", post(destructured))
        .route("/3", post(external))
        .route("/4", post(words));
    assert!(routes.has_routes());
}
