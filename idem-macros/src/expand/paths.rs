//! `…::__private`, with the spans that a message or a lint needs.
//! Names are resolved where the user stands, and are never linted as the user's.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens as _, quote_spanned};
use syn::{Path, Type, spanned::Spanned as _};

use crate::item::types;

/// The path of the runtime's `__private`.
pub(super) fn private(crate_path: Option<&Path>) -> TokenStream {
    match crate_path {
        None => quote_spanned!(Span::mixed_site()=> ::idem_runtime::__private),
        Some(path) => {
            let path: TokenStream = path.to_token_stream().into_iter().map(unlinted).collect();
            quote_spanned!(Span::mixed_site()=> #path::__private)
        }
    }
}

/// `private` for a message that has its caret at `caret`.
pub(super) fn at(private: &TokenStream, caret: Span) -> TokenStream {
    let caret = Span::mixed_site().located_at(caret);
    private.clone().into_iter().map(|token| moved(token, caret)).collect()
}

/// The return type of a consumer whose function returns `ty`. What `ty` lacks is reported in one place.
pub(super) fn consumer_result(private: &TokenStream, ty: &Type) -> TokenStream {
    let at = at(private, types::caret(ty));
    quote_spanned! {at.span()=>
        #at::Result<#at::Once<<#ty as #at::Returned>::Value>, #at::ConsumeError<<#ty as #at::Returned>::Error>>
    }
}

/// The token, no longer linted as the user's.
pub(super) fn unlinted(token: TokenTree) -> TokenTree {
    let span = Span::mixed_site().located_at(token.span());
    moved(token, span)
}

fn moved(mut token: TokenTree, span: Span) -> TokenTree {
    // `$crate` means what it means where it was written.
    if !matches!(&token, TokenTree::Ident(word) if word == "$crate") {
        token.set_span(span);
    }
    token
}
