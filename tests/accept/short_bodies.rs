//! Bodies of every short shape, on one line: rustc says nothing of them that it would not say of the plain function.
//! Most of all not `unused_braces`, whose fix takes the function's own braces away.
#![allow(
    clippy::drop_non_drop,
    clippy::needless_question_mark,
    clippy::needless_return,
    clippy::never_loop,
    clippy::redundant_closure_call,
    clippy::unused_unit,
    reason = "they are shapes of bodies, whatever the style"
)]

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use idem_runtime::idempotent;
use idem_tests::account::Account;
use sqlx::{Error, PgConnection};

pub(super) struct Status {
    code: StatusCode,
}

impl IntoResponse for Status {
    fn into_response(self) -> Response {
        self.code.into_response()
    }
}

async fn write(tx: &mut PgConnection, account: &Account) -> Result<StatusCode, String> {
    let written = sqlx::query("SELECT $1").bind(account.id).execute(tx).await;
    written.map(|_| StatusCode::CREATED).map_err(|error| error.to_string())
}

#[rustfmt::skip]
mod handlers {
    use super::{Account, IntoResponse, PgConnection, Status, StatusCode, idempotent, write};

    #[idempotent(scope = account)]
    async fn empty(_tx: &mut PgConnection, account: Account) {}

    #[idempotent(scope = account)]
    async fn unit(_tx: &mut PgConnection, account: Account) -> () { () }

    #[idempotent(scope = account)]
    async fn path(_tx: &mut PgConnection, account: Account) -> StatusCode { StatusCode::CREATED }

    #[idempotent(scope = account)]
    async fn local(_tx: &mut PgConnection, account: Account, axum::extract::State(status): axum::extract::State<StatusCode>) -> StatusCode { status }

    #[idempotent(scope = account)]
    async fn awaited(tx: &mut PgConnection, account: Account) -> Result<StatusCode, String> { write(tx, &account).await }

    #[idempotent(scope = account)]
    async fn tried(tx: &mut PgConnection, account: Account) -> Result<(), String> { Ok(write(tx, &account).await.map(drop)?) }

    #[idempotent(scope = account)]
    async fn mapped(tx: &mut PgConnection, account: Account) -> Result<StatusCode, String> { write(tx, &account).await.map_err(|error| error + "!") }

    #[idempotent(scope = account)]
    async fn method(_tx: &mut PgConnection, account: Account) -> String { account.id.to_string() }

    #[idempotent(scope = account)]
    async fn literal(_tx: &mut PgConnection, account: Account) -> &'static str { "done" }

    #[idempotent(scope = account)]
    async fn negated(_tx: &mut PgConnection, account: Account) -> String { (-account.id).to_string() }

    #[idempotent(scope = account)]
    async fn tuple(_tx: &mut PgConnection, account: Account) -> (StatusCode, String) { (StatusCode::CREATED, account.id.to_string()) }

    #[idempotent(scope = account)]
    async fn parenthesised(_tx: &mut PgConnection, account: Account) -> String { (account.id + 1).to_string() }

    #[idempotent(scope = account)]
    async fn async_block(_tx: &mut PgConnection, account: Account) -> String { async { account.id.to_string() }.await }

    #[idempotent(scope = account)]
    async fn block(_tx: &mut PgConnection, account: Account) -> String { { let id = account.id; id.to_string() } }

    #[idempotent(scope = account)]
    async fn macro_call(_tx: &mut PgConnection, account: Account) -> String { format!("{}", account.id) }

    #[idempotent(scope = account)]
    async fn statement(_tx: &mut PgConnection, account: Account) { drop(account); }

    #[idempotent(scope = account)]
    async fn binding(_tx: &mut PgConnection, account: Account) -> String { let id = account.id; id.to_string() }

    #[idempotent(scope = account)]
    async fn returned(_tx: &mut PgConnection, account: Account) -> StatusCode { return StatusCode::CREATED }

    #[idempotent(scope = account)]
    async fn returned_statement(_tx: &mut PgConnection, account: Account) -> StatusCode { return StatusCode::CREATED; }

    #[idempotent(scope = account)]
    async fn if_else(_tx: &mut PgConnection, account: Account) -> StatusCode { if account.id > 0 { StatusCode::CREATED } else { StatusCode::CONFLICT } }

    #[idempotent(scope = account)]
    async fn matched(_tx: &mut PgConnection, account: Account) -> StatusCode { match account.id { 0 => StatusCode::CONFLICT, _ => StatusCode::CREATED } }

    #[idempotent(scope = account)]
    async fn structure(_tx: &mut PgConnection, account: Account) -> Status { Status { code: StatusCode::CREATED } }

    #[idempotent(scope = account)]
    async fn closure(_tx: &mut PgConnection, account: Account) -> String { (|| account.id.to_string())() }

    #[idempotent(scope = account)]
    async fn array(_tx: &mut PgConnection, account: Account) -> Vec<u8> { [1, 2].to_vec() }

    #[idempotent(scope = account)]
    async fn looped(_tx: &mut PgConnection, account: Account) -> StatusCode { loop { break StatusCode::CREATED } }

    #[idempotent(scope = account)]
    async fn panicked(_tx: &mut PgConnection, account: Account) -> StatusCode { panic!("{}", account.id) }

    #[idempotent(scope = account)]
    async fn opaque(_tx: &mut PgConnection, account: Account) -> impl IntoResponse { StatusCode::CREATED }

    #[idempotent(scope = account)]
    async fn nested_result(_tx: &mut PgConnection, account: Account) -> Result<impl IntoResponse, String> { Ok::<_, String>(StatusCode::CREATED) }
}

#[rustfmt::skip]
mod consumers {
    use super::{Account, Error, PgConnection, idempotent, write};

    #[idempotent(scope = account, key = id)]
    async fn awaited(tx: &mut PgConnection, account: &Account, id: i64) -> Result<(), String> { write(tx, account).await.map(drop) }

    #[idempotent(scope = account, key = id)]
    async fn value(_tx: &mut PgConnection, account: &Account, id: i64) -> Result<i64, Error> { Ok(id) }

    #[idempotent(scope = account, key = id)]
    async fn returned(_tx: &mut PgConnection, account: &Account, id: i64) -> Result<i64, Error> { return Ok(id) }
}

#[rustfmt::skip]
mod webhooks {
    use super::{Account, PgConnection, StatusCode, idempotent};

    #[idempotent(webhook, scope = account, key = account.id)]
    async fn path(_tx: &mut PgConnection, account: Account) -> StatusCode { StatusCode::CREATED }
}
