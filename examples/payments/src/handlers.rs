//! The payments API. `Db` and `Connection` are sqlx's `Sqlite` and `SqliteConnection`, the default database. `main.rs` also
//! compiles this file for PostgreSQL. Your code names one database.

use std::time::Duration;

use axum::{
    Json,
    extract::{FromRef, Path, State},
    http::{StatusCode, header},
    response::IntoResponse,
    routing::{get, put},
};
use idem_runtime::{Idempotency, idempotent};
use scaffold::{
    account::Account,
    error::{AppError, Refusal},
    program::Outcome,
    runs::Runs,
    server::Service,
};
use serde::Serialize;
use sqlx::{FromRow, Pool};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};
use uuid::Uuid;

use super::{Connection, Db};
use crate::{
    document::{self, Unauthorized},
    validate::{Check, Fields, Invalid, Valid},
};

/// The state. Annotated handlers take parts of it, never the pool: a write through the pool is outside the transaction.
#[derive(Clone, FromRef)]
struct App {
    idempotency: Idempotency<Db>,
    pool: Pool<Db>,
    runs: Runs,
}

const CARD_DECLINED: Refusal =
    Refusal { status: StatusCode::PAYMENT_REQUIRED, code: "card-declined", message: "the card was declined" };
const CARD_NETWORK: Refusal = Refusal {
    status: StatusCode::INTERNAL_SERVER_ERROR,
    code: "card-network",
    message: "the card network failed, and the card may or may not have been charged",
};
const NO_SUCH_PAYMENT: Refusal =
    Refusal { status: StatusCode::NOT_FOUND, code: "no-such-payment", message: "this account has no such payment" };

/// The API and its OpenAPI document. Without a document, use axum's own `Router`: annotated handlers are ordinary handlers.
pub(crate) async fn open(pool: Pool<Db>) -> Outcome<Service<Db>> {
    let idempotency = Idempotency::builder(pool.clone()).build();
    idempotency.migrate().await?;
    let (router, mut document) = OpenApiRouter::with_openapi(document::start())
        .routes(routes!(create_payment, list_payments))
        .routes(routes!(show_payment, describe_payment))
        .routes(routes!(create_refund))
        .split_for_parts();
    // Adds the key, the responses of idem and the mark of a replay to the annotated operations.
    idempotency.document(&mut document);
    let router = router
        // Not in the document: a document names each handler once, and PATCH has this handler already.
        .route("/payments/{id}", put(describe_payment))
        .route("/openapi.json", get(Json(document)))
        .route("/runs", Runs::route())
        .with_state(App { idempotency: idempotency.clone(), pool: pool.clone(), runs: Runs::default() });
    Ok(Service { router, idempotency, pool, recovery: None })
}

/// A payment as its account sees it.
#[derive(Serialize, FromRow, ToSchema)]
struct Payment {
    id: String,
    amount: i64,
    currency: String,
    source: String,
    status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
}

#[derive(ToSchema)]
struct NewPayment {
    #[schema(minimum = 1, example = 1999)]
    amount: i64,
    #[schema(pattern = "^[A-Za-z]{3}$", example = "USD")]
    currency: String,
    #[schema(example = "tok_visa")]
    source: String,
}

impl Check for NewPayment {
    fn check(fields: &mut Fields) -> Option<Self> {
        let amount = fields.take("amount", "must be an integer above 0, in the currency's smallest unit", |value| {
            value.as_i64().filter(|&amount| amount > 0)
        });
        let currency = fields.take("currency", "must be three letters, such as USD", |value| {
            let letters = value.as_str()?;
            let three = letters.len() == 3 && letters.bytes().all(|letter| letter.is_ascii_alphabetic());
            three.then(|| letters.to_owned())
        });
        let source = fields.text("source", "must be a token, such as tok_visa");
        Some(Self { amount: amount?, currency: currency?, source: source? })
    }
}

/// Makes a payment.
#[utoipa::path(post, path = "/payments", request_body = NewPayment, responses(
    (status = 201, description = "Paid", body = Payment, headers(("Location" = String, description = "The payment"))),
    (status = 402, description = "The card was declined"),
    Unauthorized, Invalid,
))]
#[idempotent(scope = account)]
async fn create_payment(
    account: Account,
    State(runs): State<Runs>,
    tx: &mut Connection,
    Valid(new): Valid<NewPayment>,
) -> Result<impl IntoResponse, AppError> {
    runs.begin();
    let insert = "INSERT INTO payments (id, account, amount, currency, source) VALUES ($1, $2, $3, $4, $5) RETURNING *";
    let payment: Payment = sqlx::query_as(insert)
        .bind(format!("pay_{}", Uuid::new_v4().simple()))
        .bind(account.as_str())
        .bind(new.amount)
        .bind(new.currency)
        .bind(new.source)
        .fetch_one(&mut *tx)
        .await?;
    charge(&payment.source, tx).await?;
    Ok((StatusCode::CREATED, [(header::LOCATION, format!("/payments/{}", payment.id))], Json(payment)))
}

#[derive(ToSchema)]
struct Description {
    #[schema(example = "for the cat")]
    description: String,
}

impl Check for Description {
    fn check(fields: &mut Fields) -> Option<Self> {
        Some(Self { description: fields.text("description", "must be a string")? })
    }
}

/// Handles PATCH and PUT. PUT is idempotent by definition, so idem ignores a key on it.
#[utoipa::path(patch, path = "/payments/{id}", params(("id" = String, Path)), request_body = Description, responses(
    (status = 200, description = "Described", body = Payment),
    (status = 404, description = "This account has no such payment"),
    Unauthorized, Invalid,
))]
#[idempotent(scope = account)]
async fn describe_payment(
    account: Account,
    State(runs): State<Runs>,
    Path(id): Path<String>,
    tx: &mut Connection,
    Valid(Description { description }): Valid<Description>,
) -> Result<Json<Payment>, AppError> {
    runs.begin();
    let update = "UPDATE payments SET description = $1 WHERE id = $2 AND account = $3 RETURNING *";
    let update = sqlx::query_as(update).bind(description).bind(id).bind(account.as_str());
    Ok(Json(update.fetch_optional(tx).await?.ok_or(NO_SUCH_PAYMENT)?))
}

#[derive(Serialize, FromRow, ToSchema)]
struct Refund {
    id: String,
    payment: String,
    amount: i64,
    currency: String,
    status: String,
}

#[derive(ToSchema)]
struct NewRefund {
    payment: String,
}

impl Check for NewRefund {
    fn check(fields: &mut Fields) -> Option<Self> {
        Some(Self { payment: fields.text("payment", "must be the id of a payment")? })
    }
}

/// The key is optional here, for clients that send none. A client that retries without a key refunds twice.
#[utoipa::path(post, path = "/refunds", request_body = NewRefund, responses(
    (status = 201, description = "Refunded", body = Refund),
    (status = 404, description = "This account has no such payment"),
    Unauthorized, Invalid,
))]
#[idempotent(scope = account, key = optional)]
async fn create_refund(
    account: Account,
    State(runs): State<Runs>,
    tx: &mut Connection,
    Valid(new): Valid<NewRefund>,
) -> Result<(StatusCode, Json<Refund>), AppError> {
    runs.begin();
    let insert = "INSERT INTO refunds (id, payment, amount, currency) \
                  SELECT $1, id, amount, currency FROM payments WHERE id = $2 AND account = $3 RETURNING *";
    let id = format!("ref_{}", Uuid::new_v4().simple());
    let insert = sqlx::query_as(insert).bind(id).bind(new.payment).bind(account.as_str());
    Ok((StatusCode::CREATED, Json(insert.fetch_optional(tx).await?.ok_or(NO_SUCH_PAYMENT)?)))
}

#[derive(Serialize, ToSchema)]
struct Payments {
    count: usize,
    data: Vec<Payment>,
}

/// Lists the account's payments.
#[utoipa::path(get, path = "/payments", responses(
    (status = 200, description = "All of them", body = Payments),
    Unauthorized,
))]
async fn list_payments(account: Account, State(pool): State<Pool<Db>>) -> Result<Json<Payments>, AppError> {
    let select = sqlx::query_as("SELECT * FROM payments WHERE account = $1 ORDER BY number");
    let data: Vec<Payment> = select.bind(account.as_str()).fetch_all(&pool).await?;
    Ok(Json(Payments { count: data.len(), data }))
}

/// Shows a payment.
#[utoipa::path(get, path = "/payments/{id}", params(("id" = String, Path)), responses(
    (status = 200, description = "The payment", body = Payment),
    (status = 404, description = "This account has no such payment"),
    Unauthorized,
))]
async fn show_payment(
    account: Account,
    State(pool): State<Pool<Db>>,
    Path(id): Path<String>,
) -> Result<Json<Payment>, AppError> {
    let select = sqlx::query_as("SELECT * FROM payments WHERE id = $1 AND account = $2");
    let payment = select.bind(id).bind(account.as_str()).fetch_optional(&pool).await?;
    Ok(Json(payment.ok_or(NO_SUCH_PAYMENT)?))
}

/// Plays the card network. A real card network is outside the transaction: use `effects = external`, as in the example
/// `charges`. The payment's row exists already, so each failure here shows that it is rolled back.
async fn charge(source: &str, tx: &mut Connection) -> Result<(), AppError> {
    match source {
        "tok_declined" => return Err(CARD_DECLINED.into()),
        "tok_error" => return Err(CARD_NETWORK.into()),
        "tok_panic" => crash(),
        // The statement fails, and the handler ignores it. PostgreSQL has then aborted the transaction, so the client
        // gets a 500, never a 201 without a payment. SQLite continues the transaction.
        "tok_swallow" => drop(sqlx::query("SELECT 1 FROM no_such_table").execute(tx).await),
        _ => {
            let milliseconds = source.strip_prefix("tok_slow_").and_then(|number| number.parse().ok());
            if let Some(milliseconds) = milliseconds {
                tokio::time::sleep(Duration::from_millis(milliseconds)).await;
            }
        }
    }
    Ok(())
}

#[expect(clippy::panic, reason = "the example shows that a panic rolls back")]
fn crash() {
    panic!("the source is tok_panic");
}
