//! Whose keys these are: the `Scope` trait of an authenticated account, and the identity it gives.
//! Only a digest of it is ever stored; `Debug` shows none of it.

use std::fmt;

use crate::model::digest::Digest;

/// Says what identifies the caller whose keys these are. Two scopes never share a key.
///
/// Implement it for the type of your authenticated account, the one an extractor gives your handlers:
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
/// Where equal ids exist in different realms (tenants, identity providers), name both:
/// `ScopeId::new(realm).and(id)`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say whose keys these are",
    label = "this type needs `impl Scope`",
    note = "implement `idem_runtime::Scope` for the type that identifies the authenticated account"
)]
pub trait Scope {
    /// The caller's identity: equal for every request of one account, different for every two accounts.
    fn scope_id(&self) -> ScopeId;
}

impl<T: Scope + ?Sized> Scope for &T {
    fn scope_id(&self) -> ScopeId {
        T::scope_id(self)
    }
}

/// The name of a source of messages. (No request gives a handler a `str`, so none can take a text for an account by mistake.)
impl Scope for str {
    fn scope_id(&self) -> ScopeId {
        ScopeId::new(self)
    }
}

/// For calls that name the scope themselves, such as [`Idempotency::once`](crate::Idempotency::once).
impl Scope for ScopeId {
    fn scope_id(&self) -> ScopeId {
        *self
    }
}

/// What a [`Scope`] identifies itself by: one or more parts, each of any bytes.
///
/// A scope with an empty part is refused at run time (`500`, code `idempotency-scope-empty`): it would be one
/// bucket for everyone whose identity is missing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ScopeId {
    digest: Digest,
    empty: bool,
}

impl ScopeId {
    /// A scope identified by `part`.
    #[must_use]
    pub fn new(part: impl AsRef<[u8]>) -> Self {
        let part = part.as_ref();
        Self { digest: Digest::of("scope", [part]), empty: part.is_empty() }
    }

    /// The same scope, told apart by one part more.
    #[must_use]
    pub fn and(self, part: impl AsRef<[u8]>) -> Self {
        let part = part.as_ref();
        Self { digest: Digest::of("scope and", [self.digest.as_bytes(), part]), empty: self.empty || part.is_empty() }
    }

    /// The digest of all parts, or `None` where one is empty.
    pub(crate) fn digest(&self) -> Option<&Digest> {
        (!self.empty).then_some(&self.digest)
    }
}

impl fmt::Debug for ScopeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScopeId(..)")
    }
}
