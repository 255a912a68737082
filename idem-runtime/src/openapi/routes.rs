//! `Idempotency::document`: a document's operations one by one, told what the application says or left as they are.
//! What comes back is the list of them, with and without protection.

use std::fmt;

use http::Method;

use super::{
    choices::Choices,
    text::{Text, text},
};
use crate::{app::Idempotency, backend::Backend, model::options::KeyPresence};

/// The extension by which an operation carries the choices of its handler until the document is whole.
pub(super) const MARK: &str = "x-idem-choices";

/// An OpenAPI document: `utoipa::openapi::OpenApi` or `aide::openapi::OpenApi`.
pub trait Document: sealed::Sealed {
    /// Shows each operation's method, path and mark, and writes down what is said of it.
    #[doc(hidden)]
    fn each(&mut self, say: &mut Say<'_>);
}

/// What there is to say of the operation of a method and a path, with the choices that it was marked with.
pub(super) type Say<'s> = dyn FnMut(&Method, &str, Option<u128>) -> Option<Text> + 's;

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
    /// Tells a document what its protected operations need and answer: the header, idem's own answers, and the mark of a
    /// replay. Call it once, when all operations are in. What the document says of the same header is replaced; to what it
    /// says of the same statuses idem's is added.
    ///
    /// Returns every operation, protected or not, for a line each in the log at the start, or for a test that nothing which
    /// must be protected is not:
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
    /// Only what is in the document is in the list: axum's `Router` does not tell what it routes.
    pub fn document(&self, document: &mut impl Document) -> Vec<Route> {
        let (policy, problems) = (self.app.policy, self.app.renders_problems());
        let mut routes = Vec::new();
        document.each(&mut |method, path, mark| {
            let choices = mark.map(|mark| Choices::read(mark, policy)).filter(|choices| choices.protect(method));
            let protection = match &choices {
                None => Protection::Unprotected,
                Some(Choices { of_events: true, .. }) => Protection::Event,
                Some(Choices { policy, .. }) => match policy.key {
                    KeyPresence::Required => Protection::KeyRequired,
                    KeyPresence::Optional => Protection::KeyOptional,
                },
            };
            routes.push(Route { method: method.clone(), path: path.to_owned(), protection });
            choices.map(|choices| text(&choices, problems))
        });
        routes
    }
}
