//! The payments API. `Connection` is `SqliteConnection` in `sqlite.rs`, `PgConnection` in `postgres.rs`: the example
//! runs on both, your own code names one. What must not happen twice is annotated, and writes through `tx` alone.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{
    Json, Router,
    extract::{FromRef, Path, State},
    http::{StatusCode, header},
    response::IntoResponse,
    routing::{get, put},
};
use idem_runtime::{Idempotency, idempotent};
use serde::Serialize;
use serde_json::{Value, json};
use sqlx::{FromRow, Pool};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{Connection, Db};
use crate::{
    document,
    error::AppError,
    extract::{Account, Check, Fields, Invalid, Unauthorized, Valid},
    server::ServerError,
};

/// The application's state.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) idempotency: Idempotency<Db>,
    pub(crate) pool: Pool<Db>,
    runs: Runs,
}

/// How many bodies of annotated handlers have begun in this process: what shows that a replay runs nothing.
#[derive(Clone, Default)]
struct Runs(Arc<AtomicU64>);

impl FromRef<App> for Idempotency<Db> {
    fn from_ref(app: &App) -> Self {
        app.idempotency.clone()
    }
}

/// Annotated handlers take this part of the state, not `App`, whose pool would lead past the transaction.
impl FromRef<App> for Runs {
    fn from_ref(app: &App) -> Self {
        app.runs.clone()
    }
}

impl Runs {
    fn begin(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl App {
    /// Creates what tables are missing, the application's and idem's.
    pub(crate) async fn open(pool: Pool<Db>, tables: &'static str) -> Result<Self, ServerError> {
        sqlx::raw_sql(tables).execute(&pool).await?;
        let idempotency = Idempotency::builder(pool.clone()).build();
        idempotency.migrate().await?;
        Ok(Self { idempotency, pool, runs: Runs::default() })
    }

    /// The API, and its OpenAPI document. Without a document, axum's own `Router` takes annotated handlers just so.
    pub(crate) fn router(&self) -> Router {
        let (router, mut document) = OpenApiRouter::with_openapi(document::start())
            .routes(routes!(create_payment, list_payments))
            .routes(routes!(show_payment, describe_payment))
            .routes(routes!(create_refund))
            .split_for_parts();
        // What `#[idempotent]` means for clients: the key, the answers that idem gives, the mark of a replay.
        self.idempotency.document(&mut document);
        router
            // Not documented: it is PATCH's handler, and in a document each operation has a handler's name to itself.
            .route("/payments/{id}", put(describe_payment))
            .route("/openapi.json", get(Json(document)))
            .route("/runs", get(show_runs))
            .with_state(self.clone())
    }
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
        let amount =
            fields.take("amount", "must be a whole number above 0, in the currency's smallest unit", |value| {
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
    let payment: Payment =
        sqlx::query_as("INSERT INTO payments (account, amount, currency, source) VALUES ($1, $2, $3, $4) RETURNING *")
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
        Some(Self { description: fields.text("description", "must be text")? })
    }
}

/// PATCH and PUT alike. PUT is idempotent by definition, so a key sent with it is ignored.
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
    let payment = sqlx::query_as("UPDATE payments SET description = $1 WHERE id = $2 AND account = $3 RETURNING *")
        .bind(description)
        .bind(id)
        .bind(account.as_str())
        .fetch_optional(tx)
        .await?;
    payment.map(Json).ok_or(AppError::NoSuchPayment)
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

/// The key is optional here, for clients that know none: one without a key that retries refunds twice.
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
    let refund = sqlx::query_as(
        "INSERT INTO refunds (payment, amount, currency) \
         SELECT id, amount, currency FROM payments WHERE id = $1 AND account = $2 RETURNING *",
    )
    .bind(new.payment)
    .bind(account.as_str())
    .fetch_optional(tx)
    .await?;
    Ok((StatusCode::CREATED, Json(refund.ok_or(AppError::NoSuchPayment)?)))
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
async fn list_payments(account: Account, State(app): State<App>) -> Result<Json<Payments>, AppError> {
    let data: Vec<Payment> = sqlx::query_as("SELECT * FROM payments WHERE account = $1 ORDER BY number")
        .bind(account.as_str())
        .fetch_all(&app.pool)
        .await?;
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
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Json<Payment>, AppError> {
    let payment = sqlx::query_as("SELECT * FROM payments WHERE id = $1 AND account = $2")
        .bind(id)
        .bind(account.as_str())
        .fetch_optional(&app.pool)
        .await?;
    payment.map(Json).ok_or(AppError::NoSuchPayment)
}

async fn show_runs(State(Runs(runs)): State<Runs>) -> Json<Value> {
    Json(json!({ "runs": runs.load(Ordering::SeqCst) }))
}

/// Plays the card network. A real one is outside the transaction: see "What it does not guarantee" in the README.
/// The payment's row is written already, so what ends badly here shows that it is rolled back.
async fn charge(source: &str, tx: &mut Connection) -> Result<(), AppError> {
    match source {
        "tok_declined" => return Err(AppError::CardDeclined),
        "tok_error" => return Err(AppError::CardNetwork),
        "tok_panic" => crash(),
        // A statement that fails, and a handler that does not care: PostgreSQL has aborted the transaction by then,
        // so the client gets a 500, never a 201 with nothing behind it. SQLite goes on as if nothing had happened.
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

#[expect(clippy::panic, reason = "what a panicking handler leaves behind is one of the things to try")]
fn crash() {
    panic!("tok_panic asks for this");
}
