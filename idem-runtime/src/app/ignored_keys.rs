//! Tells operators of keys that protect nothing: a client sends one with a method that the handler does not protect.
//! One warning for each operation, with its route. The path is the client's text, so it is not logged.

use http::Method;

use super::operations::Operations;

/// The operations that were warned of.
#[derive(Default)]
pub(crate) struct IgnoredKeys {
    warned: Operations,
}

impl IgnoredKeys {
    /// Warns of a key that was ignored, if it is the operation's first.
    pub(crate) fn warn(&self, operation: &'static str, method: &Method, route: Option<&str>) {
        if self.warned.insert(operation) {
            tracing::warn!(
                operation,
                %method,
                route,
                "a request carries a key, but its method is not protected: add the method to `methods`"
            );
        }
    }
}
