//! What an OpenAPI document says of protected operations: features `utoipa` and `aide`.
//! [`Idempotency::document`](crate::Idempotency::document) says it, and lists which operations are protected.
//!
//! Both libraries take annotated handlers as they take others. What `#[idempotent]` says goes into the document with the
//! handler, wherever `utoipa::path` stands and whichever of `routes!`, `#[openapi(paths(…))]` and `api_route` names the
//! handler. What the application says, on the [`Builder`](crate::Builder), is added by one call when the document is whole:
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
//! Where `utoipa` has its feature `axum_extras`, put `utoipa::path` above: it then reads the parameters as you wrote them.
//!
//! # With `aide`
//!
//! Every extractor is an `OperationInput`, and what the handler returns is an `OperationOutput`, as for any handler:
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
//! # What is said
//!
//! - The header `Idempotency-Key`: whether it is required, its length and form, for how long a key answers, and what a
//!   retry, a twin and another request under the same key get. Its form is a little stricter than what is taken: UUIDs and
//!   ULIDs are declared without quotes.
//! - idem's own 400, 409, 422 (or 400) and 503 as `application/problem+json`, each with the codes that it can have; without
//!   content where [`Builder::render`](crate::Builder::render) gives them another format. The 413 is the extractor's own.
//! - `Retry-After` on 409 and 503, `Idempotent-Replayed` on every answer that the document has of the handler's own.
//!
//! Nothing is said of methods that are not protected, nor of the 500s that mean a defect.

#[cfg(feature = "aide")]
pub(crate) mod aide;
#[cfg(any(feature = "utoipa", feature = "aide"))]
mod choices;
mod declared;
#[cfg(any(feature = "utoipa", feature = "aide"))]
mod routes;
#[cfg(any(feature = "utoipa", feature = "aide"))]
mod text;
#[cfg(feature = "utoipa")]
pub(crate) mod utoipa;

#[doc(hidden)]
pub use declared::{Declared, Unnamed, declared};
#[cfg(any(feature = "utoipa", feature = "aide"))]
pub use routes::{Document, Protection, Route};

/// Nothing to say: no `utoipa`.
#[cfg(not(feature = "utoipa"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __documented {
    ($($nothing:tt)*) => {};
}
