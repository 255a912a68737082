//! B92: patterns, `mut`, `_`, raw identifiers, and names equal to the expansion's own.
//! Also `cfg` on parameters, none and sixteen extractors.

use axum::{
    Extension, Json,
    extract::{Path, Query, State},
    http::{HeaderMap, Method, StatusCode, Uri, Version},
    routing::post,
};
use idem_runtime::{Scope, ScopeId, idempotent};
use sqlx::PgConnection;

use super::common::{Account, App, Currency, Payment, Routes};

#[idempotent(scope = account)]
async fn plain(_tx: &mut PgConnection, account: Account) -> String {
    account.id.to_string()
}

#[idempotent(scope = account)]
async fn mutable(mut account: Account, tx: &mut PgConnection, Json(mut body): Json<Payment>) -> StatusCode {
    account.id += 1;
    body.amount += account.id;
    let _ = tx;
    if body.amount > 0 { StatusCode::OK } else { StatusCode::CONFLICT }
}

#[idempotent(scope = account)]
async fn destructured(
    State(App { currency, .. }): State<App>,
    Extension(account): Extension<Account>,
    Path((id, part)): Path<(i64, String)>,
    _tx: &mut PgConnection,
) -> String {
    format!("{} {} {id} {part}", currency.0, account.id)
}

#[derive(Clone)]
struct Signed {
    account: Account,
    device: i64,
}

#[idempotent(scope = account)]
async fn inside_a_struct(
    _tx: &mut PgConnection,
    Extension(Signed { mut account, device }): Extension<Signed>,
) -> StatusCode {
    account.id += device;
    if account.id > 0 { StatusCode::OK } else { StatusCode::CONFLICT }
}

#[idempotent(scope = who)]
async fn renamed_in_a_struct(
    _tx: &mut PgConnection,
    Extension(Signed { account: ref who, .. }): Extension<Signed>,
) -> String {
    who.id.to_string()
}

#[idempotent(scope = whole)]
async fn bound_whole(_tx: &mut PgConnection, whole @ Account { .. }: Account) -> String {
    whole.id.to_string()
}

#[idempotent(scope = second)]
async fn in_a_tuple(_tx: &mut PgConnection, (_first, second): (Extension<Currency>, Extension<Account>)) -> String {
    second.0.id.to_string()
}

#[derive(Clone)]
struct Pair(Account, Account);

#[idempotent(scope = last)]
async fn in_a_tuple_struct(_tx: &mut PgConnection, Extension(Pair(.., last)): Extension<Pair>) -> String {
    last.id.to_string()
}

#[idempotent(scope = account)]
async fn wildcards(_: &mut PgConnection, _: HeaderMap, _: HeaderMap, account: Account, _unused: Uri) -> String {
    account.id.to_string()
}

#[idempotent(scope = r#type)]
async fn r#match(r#fn: &mut PgConnection, r#type: Account) -> String {
    let _ = r#fn;
    r#type.id.to_string()
}

#[idempotent(scope = scope)]
async fn internals(
    call: &mut PgConnection,
    scope: Account,
    claim: Method,
    result: Uri,
    outcome: Version,
    State(response): State<Currency>,
    Json(attempt): Json<Payment>,
) -> String {
    let _ = call;
    format!("{claim} {result} {outcome:?} {} {}", response.0, attempt.amount + scope.id)
}

#[idempotent(scope = whose)]
async fn more_internals(
    tx: &mut PgConnection,
    whose: Account,
    argument_0: Method,
    attempts: Uri,
    key: Version,
    request: HeaderMap,
) -> String {
    let _ = tx;
    format!("{argument_0} {attempts} {key:?} {} {}", request.len(), whose.id)
}

/// Its own items are what a body's names mean, whatever an expansion calls its own.
mod shadows {
    use super::{Account, PgConnection, idempotent};

    const HANDLER: &str = "mine";
    struct Response;
    struct Claim;
    fn caught() -> &'static str {
        "mine"
    }
    fn outcome() -> (Response, Claim) {
        (Response, Claim)
    }

    #[idempotent(scope = account)]
    pub(super) async fn named_like_ours(_tx: &mut PgConnection, account: Account) -> String {
        let (Response, Claim) = outcome();
        format!("{HANDLER}{}{}", caught(), account.id)
    }
}

/// A caller that is always the same.
#[derive(Clone)]
struct Everyone;

impl Scope for Everyone {
    fn scope_id(&self) -> ScopeId {
        ScopeId::new("everyone")
    }
}

#[idempotent(scope = account)]
async fn with_cfg(
    #[cfg(not(test))] _tx: &mut PgConnection,
    #[cfg(test)] _tx: &mut sqlx::SqliteConnection,
    account: Account,
    #[cfg(test)] headers: HeaderMap,
    #[cfg(not(test))] _nothing: Nothing,
    #[cfg(test)]
    #[cfg(debug_assertions)]
    _uri: Uri,
    #[allow(unused_variables)] unused: Method,
    #[cfg_attr(test, allow(unused_variables))] unused_too: Method,
) -> String {
    format!("{} {}", account.id, headers.len())
}

#[idempotent(scope = caller)]
async fn one_extractor(_tx: &mut PgConnection, Extension(caller): Extension<Everyone>) {
    let _ = caller;
}

#[derive(serde::Deserialize)]
struct Page {
    page: u32,
}

#[idempotent(scope = account)]
#[allow(clippy::too_many_arguments, reason = "as many as axum takes")]
async fn sixteen(
    _tx: &mut PgConnection,
    account: Account,
    _: Method,
    _: Uri,
    _: Version,
    _: HeaderMap,
    _: Method,
    _: Uri,
    _: Version,
    _: HeaderMap,
    _: Method,
    _: Uri,
    _: Version,
    _: HeaderMap,
    State(_): State<Currency>,
    Query(query): Query<Page>,
    Json(body): Json<Payment>,
) -> String {
    (account.id + body.amount + i64::from(query.page)).to_string()
}

#[test]
fn all_are_handlers() {
    let routes = Routes::new()
        .route("/1", post(plain))
        .route("/2", post(mutable))
        .route("/3", post(destructured))
        .route("/4", post(inside_a_struct))
        .route("/5", post(renamed_in_a_struct))
        .route("/6", post(bound_whole))
        .route("/7", post(in_a_tuple))
        .route("/8", post(in_a_tuple_struct))
        .route("/9", post(wildcards))
        .route("/10", post(r#match))
        .route("/11", post(internals))
        .route("/12", post(more_internals))
        .route("/13", post(shadows::named_like_ours))
        .route("/14", post(with_cfg))
        .route("/15", post(one_extractor))
        .route("/16", post(sixteen));
    assert!(routes.has_routes());
}
