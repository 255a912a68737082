//! B94: axum's `debug_handler` below the attribute, with the state written, inferred or absent.
//! Above it, `debug_handler` asks for an extractor in place of the transaction, and cannot work.

use axum::{Json, debug_handler, extract::State, http::Uri, routing::post};
use idem_runtime::idempotent;
use sqlx::PgConnection;

use super::common::{Account, App, Currency, Payment, Routes};

#[idempotent(scope = account)]
#[debug_handler(state = App)]
async fn state_written(
    tx: &mut PgConnection,
    State(Currency(currency)): State<Currency>,
    account: Account,
    Json(body): Json<Payment>,
) -> String {
    let _ = tx;
    format!("{currency} {} {}", account.id, body.amount)
}

#[idempotent(scope = account)]
#[axum::debug_handler]
async fn state_inferred(State(app): State<App>, account: Account, tx: &mut PgConnection) -> String {
    let _ = tx;
    format!("{} {}", app.currency.0, account.id)
}

#[idempotent(scope = account)]
#[debug_handler]
async fn no_state(tx: &mut PgConnection, _uri: Uri, account: Account) -> String {
    let _ = tx;
    account.id.to_string()
}

#[idempotent(scope = account)]
#[cfg_attr(test, debug_handler(state = App), deprecated)]
async fn conditional(
    tx: &mut PgConnection,
    State(_app): State<App>,
    State(_currency): State<Currency>,
    account: Account,
) -> Result<impl axum::response::IntoResponse, String> {
    let _ = tx;
    Ok(account.id.to_string())
}

#[test]
#[allow(deprecated, reason = "the attribute must reach the item")]
fn all_are_handlers() {
    let routes = Routes::new()
        .route("/1", post(state_written))
        .route("/2", post(state_inferred))
        .route("/3", post(no_state))
        .route("/4", post(conditional));
    assert!(routes.has_routes());
}
