//! The trait `Scope`, which identifies the owner of a request's keys, and the identity that it returns.
//! Only a digest is stored; `Debug` does not show it.

use std::fmt;

use crate::model::digest::Digest;

/// Identifies the caller who owns a request's keys. Two scopes never share a key.
///
/// Implement it for the authenticated account that an extractor passes to your handlers:
///
/// ```
/// use idem_runtime::{Scope, ScopeId};
///
/// struct Account { id: i64 }
///
/// impl Scope for Account {
///     fn scope_id(&self) -> ScopeId {
///         ScopeId::new(self.id.to_be_bytes())
///     }
/// }
/// ```
///
/// Identify the account, not the session or the token: a retry after a token refresh must find its key.
/// If equal ids exist in different realms (tenants, identity providers), use both: `ScopeId::new(realm).and(id)`.
#[diagnostic::on_unimplemented(
    message = "expected a type that implements `Scope`, found `{Self}`",
    label = "this type needs `impl Scope`",
    note = "implement `idem_runtime::Scope` for the type that identifies the authenticated account"
)]
pub trait Scope {
    /// The caller's identity: equal for all requests of one account, different for different accounts.
    fn scope_id(&self) -> ScopeId;
}

impl<T: Scope + ?Sized> Scope for &T {
    fn scope_id(&self) -> ScopeId {
        T::scope_id(self)
    }
}

/// The name of a source of messages. (No extractor yields a `str`, so a handler cannot use a string as an account by
/// mistake.)
impl Scope for str {
    fn scope_id(&self) -> ScopeId {
        ScopeId::new(self)
    }
}

/// For calls that take a scope as an argument, such as [`Idempotency::once`](crate::Idempotency::once).
impl Scope for ScopeId {
    fn scope_id(&self) -> ScopeId {
        *self
    }
}

/// The identity that a [`Scope`] returns: one or more parts, each of any bytes.
///
/// A scope with an empty part is refused at run time (`500`, code `idempotency-scope-empty`): all callers without an
/// identity would share it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ScopeId {
    digest: Digest,
    empty: bool,
}

impl ScopeId {
    /// Creates a scope with one part.
    #[must_use]
    pub fn new(part: impl AsRef<[u8]>) -> Self {
        let part = part.as_ref();
        Self { digest: Digest::of("scope", [part]), empty: part.is_empty() }
    }

    /// Adds a part. The order counts: `new(a).and(b)` and `new(b).and(a)` are two scopes.
    #[must_use]
    pub fn and(self, part: impl AsRef<[u8]>) -> Self {
        let part = part.as_ref();
        Self { digest: Digest::of("scope and", [self.digest.as_bytes(), part]), empty: self.empty || part.is_empty() }
    }

    /// The digest of all parts; `None` if one of them is empty.
    pub(crate) fn digest(&self) -> Option<&Digest> {
        (!self.empty).then_some(&self.digest)
    }
}

impl fmt::Debug for ScopeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScopeId(..)")
    }
}
