//! The namespace of a service, which separates its records from those of other services in the same table.
//! It is part of the scope, so every identifier, lock number and step key derives from it.

use crate::model::{digest::Digest, operation::is_operation, scope::ScopeId};

/// The namespace that an application sets, or none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Namespace(Option<String>);

impl Namespace {
    /// Refuses a name that is not 1 to 128 visible ASCII characters: the rule of operations.
    #[track_caller]
    pub(crate) fn new(name: &str) -> Self {
        assert!(
            is_operation(name),
            "invalid namespace {name:?}: expected 1 to 128 visible ASCII characters, such as \"billing\""
        );
        Self(Some(name.to_owned()))
    }

    /// The digest of a scope in this namespace; `None` if a part of the scope is empty. Without a namespace, the scope's own.
    pub(crate) fn scope(&self, scope: &ScopeId) -> Option<Digest> {
        let scope = scope.digest()?;
        Some(match &self.0 {
            None => *scope,
            Some(name) => Digest::of("namespace", [name.as_bytes(), scope.as_bytes()]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{endpoint::Endpoint, record_id::RecordId};

    #[test]
    fn b20_a_namespace_is_pinned_in_every_identifier() {
        let ada = ScopeId::new("ada");
        let scope = Namespace::new("billing").scope(&ada).expect("a scope");
        for (id, golden) in [
            (RecordId::of_key(&scope, b"order-1"), "5e469d326f013520573b9f5599fa3a9a229e0de92cd941f03169a160d060d8a6"),
            (
                RecordId::of_key_at(&scope, b"POST", Endpoint::Route("/orders/{id}"), b"order-1"),
                "926e83c6778e027200274d13380542cfda4bbc9a28af37b0b978483b21e8dd6e",
            ),
            (
                RecordId::of_event(&scope, "paid", b"evt_1"),
                "af8c9351050b677aca112acce7587dc0dc0e395e7a39fac990d101aff0f0d4fe",
            ),
            (
                RecordId::of_message(&scope, "send_receipt", b"m-1"),
                "9e1fdc8b6ecedb3a76dcac3f31ecc10d23e63abbae71cca1d72af9f55be2e810",
            ),
        ] {
            assert_eq!(id.to_string(), golden);
        }
    }

    #[test]
    fn without_a_namespace_a_scope_is_as_it_was() {
        let ada = ScopeId::new("ada");
        assert!(Namespace::default().scope(&ada) == ada.digest().copied());
        assert!(Namespace::new("billing").scope(&ScopeId::new("")).is_none());
    }

    #[test]
    #[should_panic(expected = "invalid namespace \"two words\": expected 1 to 128 visible ASCII characters")]
    fn a_refusal_names_the_namespace() {
        Namespace::new("two words");
    }
}
