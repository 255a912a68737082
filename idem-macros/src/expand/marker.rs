//! The type that stands for a handler: its options are a constant of it. It stands beside the handler, whose type names it.
//! It is as visible as the handler, or rustc would warn of a private type in a public function.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens as _, format_ident, quote_spanned};

use super::{options::handler_options, paths::unlinted};
use crate::plan::Plan;

pub(super) fn name(plan: &Plan<'_>) -> Ident {
    format_ident!("__idem_{}", plan.function.name(), span = Span::mixed_site())
}

/// The type called `name`, and its options.
pub(super) fn items(private: &TokenStream, when: &TokenStream, plan: &Plan<'_>, name: &Ident) -> TokenStream {
    let vis: TokenStream = plan.function.vis.to_token_stream().into_iter().map(unlinted).collect();
    let options = handler_options(private, plan);
    quote_spanned! {Span::mixed_site()=>
        #when
        #[doc(hidden)]
        #vis enum #name {}
        #when
        impl #private::HandlerMarker for #name {
            const OPTIONS: #private::HandlerOptions = #options;
        }
    }
}
