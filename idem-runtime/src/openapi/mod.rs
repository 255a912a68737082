//! What an OpenAPI document says of protected operations: features `utoipa` and `aide`.
//! [`Idempotency::document`](crate::Idempotency::document) says it, and lists which operations are protected.
//!
//! Both libraries take annotated handlers as they take others. What `#[idempotent]` says goes into the document with the
//! handler, wherever `utoipa::path` stands and whichever of `routes!`, `#[openapi(paths(…))]` and `api_route` names the
//! handler. What the application says, on the [`Builder`](crate::Builder), is added by one call when the document is whole:
//!
//! ```
//! # #[cfg(all(feature = "utoipa", feature = "sqlite"))]
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

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
