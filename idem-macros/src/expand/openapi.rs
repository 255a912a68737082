//! What OpenAPI documents find of a handler: its return type, and its marker through what `utoipa::path` puts beside it.
//! `aide` finds both in the handler's own type.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens as _, format_ident, quote, quote_spanned};

use crate::plan::{Plan, Returns};

/// The return type, or what stands for one that a signature cannot name.
pub(super) fn returned(private: &TokenStream, plan: &Plan<'_>) -> TokenStream {
    match plan.returns {
        Returns::Unit => quote!(()),
        Returns::Owned(ty) => ty.to_token_stream(),
        Returns::Borrowing(_) | Returns::Opaque(_) => quote_spanned!(Span::mixed_site()=> #private::Unnamed),
    }
}

/// What a `utoipa::path` on the same function finds, if the runtime has the feature `utoipa`. It does not name the
/// handler, which may be deprecated or unused.
pub(super) fn utoipa_path(private: &TokenStream, when: &TokenStream, plan: &Plan<'_>, marker: &Ident) -> TokenStream {
    let name = plan.function.name();
    let path = format_ident!("__path_{name}", span = Span::mixed_site());
    let fallback = format_ident!("_documented_{name}", span = Span::mixed_site());
    quote_spanned!(Span::mixed_site()=> #when #private::documented! { #path #fallback #marker })
}
