//! How the expansion reads the scope, the key and the payload from the arguments, by reference, before the body takes
//! them. It matches the parameter's own pattern, reduced to one name.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Pat, PatType, ext::IdentExt as _, spanned::Spanned as _};

use super::roles::Roles;
use crate::{
    item::{patterns, types},
    options::{Expression, ScopeArg},
};

/// Access to a value in the arguments.
pub(crate) struct Access {
    /// The pattern for each argument.
    pub(crate) patterns: Vec<Option<TokenStream>>,
    /// A reference to what is read, in terms of the name that the pattern binds.
    pub(crate) value: TokenStream,
    /// The name as the user's parameter binds it.
    pub(crate) name: Ident,
}

impl Access {
    /// Access to the parameter that `scope` names.
    pub(crate) fn scope(wanted: &ScopeArg, roles: &Roles<'_>) -> Option<Self> {
        let owner = roles.owner(&wanted.parameter)?;
        let binding = Ident::new("__scope", Span::mixed_site().located_at(scope_caret(owner)));
        Some(Self::of(&wanted.parameter, owner, roles, &binding, quote!(#binding)))
    }

    /// Access to the expression of `key` or `payload`.
    pub(crate) fn expression(wanted: &Expression, roles: &Roles<'_>) -> Option<Self> {
        let name = &wanted.parameter;
        let owner = roles.owner(name)?;
        // With the user's name, for rustc's messages, but not the user's hygiene, for lints on shadowing.
        let mut binding = name.clone();
        binding.set_span(Span::mixed_site().located_at(name.span()));
        let expression = wanted.beginning_at(binding.span());
        let value = quote_spanned!(Span::mixed_site().located_at(expression.span())=> &#expression);
        Some(Self::of(name, owner, roles, &binding, value))
    }

    fn of(name: &Ident, owner: &PatType, roles: &Roles<'_>, binding: &Ident, value: TokenStream) -> Self {
        let patterns = roles.extractors.iter().map(|typed| patterns::only(&typed.pat, name, binding)).collect();
        let bound = patterns::names(&owner.pat).into_iter().find(|bound| bound.unraw() == name.unraw());
        Self { patterns, value, name: bound.unwrap_or_else(|| name.clone()) }
    }
}

/// The name of the type that must be a `Scope`: `Account` in `Extension(account): Extension<Account>`.
fn scope_caret(owner: &PatType) -> Span {
    match &*owner.pat {
        Pat::TupleStruct(parts) if parts.elems.len() == 1 => {
            types::caret(types::argument(&owner.ty).unwrap_or(&owner.ty))
        }
        _ => types::caret(&owner.ty),
    }
}
