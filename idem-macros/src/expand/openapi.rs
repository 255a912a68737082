//! What OpenAPI documents find of a handler: its options and its return type, in the handler's own type.
//! `fingerprint = path` has a placeholder here, so that a mistake in the path is reported once.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens as _, format_ident, quote, quote_spanned};

use super::options::{FunctionPath, handler_options};
use crate::plan::{Plan, Returns};

/// The type that carries options and return type.
pub(super) fn handler_type(private: &TokenStream, plan: &Plan<'_>) -> TokenStream {
    let returned = match plan.returns {
        Returns::Unit => quote!(()),
        Returns::Owned(ty) => ty.to_token_stream(),
        Returns::Borrowing(_) | Returns::Opaque(_) => quote_spanned!(Span::mixed_site()=> #private::Unnamed),
    };
    let options = handler_options(private, plan, FunctionPath::Placeholder);
    quote_spanned!(Span::mixed_site()=> #private::Declared<#returned, { #options.choices() }>)
}

/// What an `utoipa::path` on the same function finds, if the runtime has the feature `utoipa`. It does not name the
/// handler, which may be deprecated or unused.
pub(super) fn utoipa_path(private: &TokenStream, when: &TokenStream, plan: &Plan<'_>) -> TokenStream {
    let name = plan.function.name();
    let path = format_ident!("__path_{name}", span = Span::mixed_site());
    let fallback = format_ident!("_documented_{name}", span = Span::mixed_site());
    let options = handler_options(private, plan, FunctionPath::Placeholder);
    quote_spanned!(Span::mixed_site()=> #when #private::documented! { #path #fallback #options.choices() })
}
