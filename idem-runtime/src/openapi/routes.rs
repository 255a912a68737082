//! `Idempotency::document`: describes the protected operations of a document, by the options of handler and application.
//! It returns the list of all operations, with and without protection.

use std::fmt;

use http::Method;

use super::text::{Text, text};
use crate::{
    app::Idempotency,
    backend::Backend,
    model::{
        handler_options::{HandlerOptions, Policy},
        options::KeyPresence,
    },
};

/// An OpenAPI document: `utoipa::openapi::OpenApi` or `aide::openapi::OpenApi`.
pub trait Document: sealed::Sealed {
    /// Takes the mark off each operation, and writes into the operation what `describe` returns.
    #[doc(hidden)]
    fn each(&mut self, describe: &mut Describe<'_>);
}

/// The text for the operation of a method and a path, whose handler has these options if it is annotated.
pub(super) type Describe<'d> = dyn FnMut(&Method, &str, Option<&'static HandlerOptions>) -> Option<Text> + 'd;

pub(super) mod sealed {
    pub trait Sealed {}
}

/// One operation of a document.
///
/// Shown, it is one line: `POST /payments: key required`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Route {
    /// Its method.
    pub method: Method,
    /// Its path, as the document writes it.
    pub path: String,
    /// Whether it is protected.
    pub protection: Protection,
}

/// Whether an operation is protected, and where its key comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Protection {
    /// Its handler is not annotated, or its method is not one that is protected.
    Unprotected,
    /// Protected for those who send a key.
    KeyOptional,
    /// Protected; a request without a key is refused.
    KeyRequired,
    /// Protected by the id of the event that a request delivers.
    Event,
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protection = match self.protection {
            Protection::Unprotected => "unprotected",
            Protection::KeyOptional => "key optional",
            Protection::KeyRequired => "key required",
            Protection::Event => "key in the event",
        };
        write!(f, "{} {}: {protection}", self.method, self.path)
    }
}

impl<Db: Backend> Idempotency<Db> {
    /// Adds to a document what clients of its protected operations must know: the header, idem's own responses, and the mark
    /// of a replay. Call it once, when the document has all operations. It replaces what the document says of the same
    /// headers, and adds to what the document says of the same statuses.
    ///
    /// Returns every operation, protected or not. Log them at the start, or test that every operation which needs protection
    /// has it:
    ///
    /// ```
    /// # #[cfg(all(feature = "utoipa", feature = "sqlite"))]
    /// # async fn check(pool: sqlx::SqlitePool, mut document: utoipa::openapi::OpenApi) {
    /// use idem_runtime::{Idempotency, openapi::Protection};
    ///
    /// let idempotency = Idempotency::builder(pool).build();
    /// for route in idempotency.document(&mut document) {
    ///     assert!(route.method != "POST" || route.protection != Protection::Unprotected, "{route}");
    /// }
    /// # }
    /// ```
    ///
    /// The list has what the document has: axum's `Router` does not list its routes.
    pub fn document(&self, document: &mut impl Document) -> Vec<Route> {
        let (policy, problems) = (self.app.policy, self.app.renders_problems());
        let mut routes = Vec::new();
        document.each(&mut |method, path, handler| {
            let chosen = handler.map(|handler| Chosen { handler, policy: policy.over(handler) });
            let protected = chosen.filter(|chosen| chosen.protects(method));
            let protection = protected.as_ref().map_or(Protection::Unprotected, Chosen::protection);
            routes.push(Route { method: method.clone(), path: path.to_owned(), protection });
            protected.map(|chosen| text(&chosen, problems))
        });
        routes
    }
}

/// What holds for one handler.
pub(super) struct Chosen {
    pub(super) handler: &'static HandlerOptions,
    /// Its choices over those of the application.
    pub(super) policy: Policy,
}

impl Chosen {
    fn protects(&self, method: &Method) -> bool {
        self.handler.is_of_events() || self.policy.methods.protect(method)
    }

    fn protection(&self) -> Protection {
        match self.policy.key {
            _ if self.handler.is_of_events() => Protection::Event,
            KeyPresence::Required => Protection::KeyRequired,
            KeyPresence::Optional => Protection::KeyOptional,
        }
    }
}
