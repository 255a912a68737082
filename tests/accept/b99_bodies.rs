//! B99: bodies with `?`, early returns, branches that never return, labelled breaks, nested async blocks and closures.
//! They mean what they mean in the plain function.

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::post,
};
use idem_runtime::idempotent;
use sqlx::PgConnection;

use super::common::{Account, Payment, Routes};

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("the database")]
    Database(#[from] sqlx::Error),
    #[error("not a number")]
    Number(#[from] std::num::ParseIntError),
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
    }
}

/// An error of an application that is no `std::error::Error`.
struct Opaque;

impl From<sqlx::Error> for Opaque {
    fn from(_: sqlx::Error) -> Self {
        Self
    }
}

impl IntoResponse for Opaque {
    fn into_response(self) -> Response {
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
    }
}

#[idempotent(scope = account)]
async fn only_question_marks(tx: &mut PgConnection, account: Account) -> Result<(), Failure> {
    sqlx::query("SELECT $1").bind(account.id).execute(&mut *tx).await?;
    sqlx::query("SELECT 1").execute(tx).await?;
    Ok(())
}

#[idempotent(scope = account)]
async fn error_without_a_source(tx: &mut PgConnection, account: Account) -> Result<Json<i64>, Opaque> {
    let one: i64 = sqlx::query_scalar("SELECT 1").fetch_one(tx).await?;
    Ok(Json(one + account.id))
}

#[idempotent(scope = account)]
async fn early_returns(tx: &mut PgConnection, account: Account, body: String) -> Result<StatusCode, Failure> {
    let amount = match body.parse::<i64>() {
        Ok(0) => return Ok(StatusCode::NO_CONTENT),
        Ok(amount) => amount,
        Err(error) => return Err(error.into()),
    };
    if amount == account.id {
        return Ok(StatusCode::CONFLICT);
    }
    sqlx::query("SELECT 1").execute(tx).await?;
    Ok(StatusCode::CREATED)
}

/// The lint level of a body is its own.
#[idempotent(scope = account)]
async fn inner_attribute(tx: &mut PgConnection, account: Account) -> StatusCode {
    #![allow(unused_variables, reason = "the test is that this may stand here")]
    let _ = tx;
    let unused = 1;
    StatusCode::OK
}

/// A parameter that is only the scope is used: by the attribute.
#[idempotent(scope = account)]
async fn only_the_scope(account: Account, tx: &mut PgConnection) -> Result<StatusCode, Failure> {
    sqlx::query("SELECT 1").execute(tx).await?;
    Ok(StatusCode::OK)
}

#[idempotent(scope = account)]
async fn opaque_return(tx: &mut PgConnection, account: Account) -> impl IntoResponse {
    let _ = tx;
    (StatusCode::CREATED, [("x-account", account.id.to_string())], "created")
}

#[idempotent(scope = account)]
async fn opaque_in_a_result(
    tx: &mut PgConnection,
    account: Account,
) -> Result<(StatusCode, impl IntoResponse), Failure> {
    sqlx::query("SELECT 1").execute(tx).await?;
    Ok((StatusCode::CREATED, Json(account.id)))
}

#[idempotent(scope = account)]
async fn axum_result(tx: &mut PgConnection, account: Account) -> axum::response::Result<String> {
    sqlx::query("SELECT 1").execute(tx).await.map_err(|_| StatusCode::BAD_GATEWAY)?;
    Ok(account.id.to_string())
}

#[idempotent(scope = account)]
async fn borrowing_error(tx: &mut PgConnection, account: Account) -> Result<String, (StatusCode, &'static str)> {
    let _ = tx;
    if account.id == 0 {
        return Err((StatusCode::FORBIDDEN, "nobody"));
    }
    Ok(String::new())
}

#[idempotent(scope = account)]
async fn branch_that_never_returns(tx: &mut PgConnection, account: Account) -> StatusCode {
    let _ = tx;
    if account.id > 0 { StatusCode::OK } else { unreachable!("accounts are positive") }
}

#[idempotent(scope = account)]
#[allow(clippy::todo, reason = "a handler that is not written yet must compile")]
async fn not_written_yet(_tx: &mut PgConnection, _json: Account, account: Account) -> Result<Json<i64>, Failure> {
    todo!("{}", account.id)
}

#[idempotent(scope = account)]
async fn labelled_breaks(tx: &mut PgConnection, account: Account) -> String {
    let _ = tx;
    let mut count = 0;
    let found = 'outer: loop {
        for step in 0..10 {
            count += step;
            if count > account.id {
                break 'outer count;
            }
        }
    };
    let after = 'block: {
        if found > 3 {
            break 'block 1;
        }
        2
    };
    (found + after).to_string()
}

#[idempotent(scope = account)]
async fn nested_blocks(tx: &mut PgConnection, account: Account, Json(body): Json<Payment>) -> Result<String, Failure> {
    let inner: Result<i64, sqlx::Error> = async {
        let one: i64 = sqlx::query_scalar("SELECT 1").fetch_one(&mut *tx).await?;
        Ok(one)
    }
    .await;
    let parse = |text: &str| -> Result<i64, Failure> { Ok(text.parse::<i64>()?) };
    let later = async move || -> Result<i64, Failure> { Ok(body.amount) };
    Ok((inner? + parse("1")? + later().await? + account.id).to_string())
}

#[idempotent(scope = account)]
async fn items_inside(tx: &mut PgConnection, account: Account) -> String {
    const STEP: i64 = 1;
    fn next(id: i64) -> i64 {
        id + STEP
    }
    let _ = tx;
    next(account.id).to_string()
}

/// A handler can be called by name from its siblings, as any function that takes what axum gives.
#[test]
fn all_are_handlers() {
    let routes = Routes::new()
        .route("/1", post(only_question_marks))
        .route("/2", post(error_without_a_source))
        .route("/3", post(early_returns))
        .route("/4", post(opaque_return))
        .route("/5", post(opaque_in_a_result))
        .route("/6", post(axum_result))
        .route("/7", post(borrowing_error))
        .route("/8", post(branch_that_never_returns))
        .route("/9", post(not_written_yet))
        .route("/10", post(labelled_breaks))
        .route("/11", post(nested_blocks))
        .route("/12", post(items_inside));
    assert!(routes.has_routes());
}
