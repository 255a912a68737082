//! OpenAPI documents that describe protected operations: features `utoipa` and `aide`.
//! [`Idempotency::document`](crate::Idempotency::document) writes the description, and lists which operations are protected.
//!
//! Both libraries take annotated handlers as they take others. The options of `#[idempotent]` go into the document with the
//! handler: put `utoipa::path` above or below, and name the handler in `routes!`, `#[openapi(paths(…))]` or `api_route`.
//! One call adds the application's options, set on the [`Builder`](crate::Builder), when the document is complete:
//!
//! # With `utoipa`
//!
//! ```
//! # #[cfg(all(feature = "utoipa", feature = "sqlite"))]
//! # mod example {
//! # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/openapi/prelude.in"));
//! use axum::Router;
//! use idem_runtime::{Idempotency, idempotent};
//! use utoipa::openapi::OpenApi;
//! use utoipa_axum::{router::OpenApiRouter, routes};
//!
//! /// Makes a payment.
//! #[utoipa::path(post, path = "/payments", responses((status = 200, description = "paid", body = i64)))]
//! #[idempotent(scope = account, retention = "7d")]
//! async fn pay(account: Account, tx: &mut SqliteConnection) -> Result<Json<i64>, String> {
//!     insert(tx, &account).await.map(Json)
//! }
//!
//! pub fn routes(idempotency: Idempotency<Sqlite>) -> (Router, OpenApi) {
//!     let (router, mut document) = OpenApiRouter::new().routes(routes!(pay)).split_for_parts();
//!     for route in idempotency.document(&mut document) {
//!         println!("{route}"); // POST /payments: key required
//!     }
//!     (router.with_state(idempotency), document)
//! }
//! # }
//! # #[cfg(all(feature = "utoipa", feature = "sqlite"))]
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! # let pool = sqlx::SqlitePool::connect("sqlite::memory:").await?;
//! # let (_, document) = example::routes(idem_runtime::Idempotency::builder(pool).build());
//! # let text = serde_json::to_string(&document)?;
//! # assert!(text.contains("Idempotency-Key") && text.contains("7 days"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! With `utoipa`'s feature `axum_extras`, put `utoipa::path` above: it then reads the parameters as you wrote them.
//!
//! # With `aide`
//!
//! Each extractor must be an `OperationInput`, and the return type an `OperationOutput`, as for any handler:
//!
//! ```
//! # #[cfg(all(feature = "aide", feature = "sqlite"))]
//! # mod example {
//! # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/openapi/prelude.in"));
//! use aide::{
//!     axum::{ApiRouter, routing::post},
//!     openapi::OpenApi,
//! };
//! use axum::Router;
//! use idem_runtime::{Idempotency, idempotent};
//!
//! # impl aide::OperationInput for Account {}
//! #[idempotent(scope = account)]
//! async fn pay(account: Account, tx: &mut SqliteConnection) -> Result<Json<i64>, String> {
//!     insert(tx, &account).await.map(Json)
//! }
//!
//! pub fn routes(idempotency: Idempotency<Sqlite>) -> (Router, OpenApi) {
//!     let mut document = OpenApi::default();
//!     let router = ApiRouter::new().api_route("/payments", post(pay)).finish_api(&mut document);
//!     idempotency.document(&mut document);
//!     (router.with_state(idempotency), document)
//! }
//! # }
//! # #[cfg(all(feature = "aide", feature = "sqlite"))]
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! # let pool = sqlx::SqlitePool::connect("sqlite::memory:").await?;
//! # let (_, document) = example::routes(idem_runtime::Idempotency::builder(pool).build());
//! # let text = serde_json::to_string(&document)?;
//! # assert!(text.contains("Idempotency-Key") && text.contains("24 hours"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What the document gets
//!
//! - The header `Idempotency-Key`: whether it is required, its length and form, and for how long a key is remembered. The
//!   text says what a retry, an in-flight duplicate and another request with the same key get. The form is a little
//!   stricter than the server: UUIDs and ULIDs are declared without quotes. The header replaces one that the operation
//!   declares itself or refers to by `$ref`.
//! - idem's own 400, 409, 422 (or 400) and 503 as `application/problem+json`, each with its possible codes. They have no
//!   content where [`Builder::render`](crate::Builder::render) sets another format. The 413 is the extractor's own.
//! - `Retry-After` on 409 and 503, and `Idempotent-Replayed` on every response of the handler that the document declares.
//!
//! The document says nothing of idempotency for methods that are not protected, and nothing of the 500s that mean a defect.

#[cfg(feature = "aide")]
pub(crate) mod aide;
#[cfg(any(feature = "utoipa", feature = "aide"))]
mod marks;
#[cfg(any(feature = "utoipa", feature = "aide"))]
mod patch;
#[cfg(any(feature = "utoipa", feature = "aide"))]
mod routes;
#[cfg(any(feature = "utoipa", feature = "aide"))]
mod text;
#[cfg(feature = "utoipa")]
pub(crate) mod utoipa;

#[cfg(any(feature = "utoipa", feature = "aide"))]
pub use routes::{Document, Protection, Route};

/// Stands for a return type that a signature cannot name.
#[doc(hidden)]
pub struct Unnamed;

/// Expands to nothing without the feature `utoipa`.
#[cfg(not(feature = "utoipa"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __documented {
    ($($nothing:tt)*) => {};
}
