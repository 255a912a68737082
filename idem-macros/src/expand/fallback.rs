//! After a mistake: a stub with the function's name and visibility in its place, so that no further error follows.
//! The stub of a handler suits any state, and the stub of a consumer any arguments.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{Path, ReturnType, Type};

use super::paths::{consumer_result, private};
use crate::{
    item::{Function, tx_param, types},
    options::Args,
    plan::Kind,
};

/// A stub in place of `function`, which it contains, so that an editor still knows the body.
pub(crate) fn stub(when: &TokenStream, args: &Args, function: &Function) -> TokenStream {
    let private = private(args.crate_path());
    let (outer, nested) = (&function.attributes.outer, nested(&private, function));
    let stub = if is_consumer(args, function) {
        consumer(&private, function, &nested)
    } else {
        handler(&private, &function.vis, &function.sig.ident, &nested)
    };
    quote!(#when #(#outer)* #stub)
}

/// A stub of which only visibility and name are known.
pub(crate) fn named(crate_path: Option<&Path>, vis: &TokenStream, name: &Ident) -> TokenStream {
    handler(&private(crate_path), vis, name, &TokenStream::new())
}

fn handler(private: &TokenStream, vis: &impl ToTokens, name: &Ident, nested: &TokenStream) -> TokenStream {
    let stub = quote_spanned! {Span::mixed_site()=>
        async fn #name() -> #private::Response {
            #nested
            #private::never().await
        }
    };
    quote!(#vis #stub)
}

fn consumer(private: &TokenStream, function: &Function, nested: &TokenStream) -> TokenStream {
    let (vis, name) = (&function.vis, &function.sig.ident);
    let is_own = |ty: &Type| !types::is_connection(types::behind(ty));
    let own = function.typed().filter(|typed| tx_param(typed).is_none() && is_own(&typed.ty));
    let own = own.map(|_| quote_spanned!(Span::mixed_site()=> _: impl ::core::marker::Sized));
    let returned = match &function.sig.output {
        ReturnType::Type(_, ty) if types::is_result(ty) => consumer_result(private, ty),
        _ => quote_spanned!(Span::mixed_site()=> #private::Response),
    };
    let stub = quote_spanned! {Span::mixed_site()=>
        async fn #name(_: &impl ::core::marker::Sized, #(#own),*) -> #returned {
            #nested
            #private::never().await
        }
    };
    quote!(#vis #stub)
}

/// Whether the function is meant to be a consumer. Where the options do not tell, a parameter by reference does.
fn is_consumer(args: &Args, function: &Function) -> bool {
    let responds = matches!(&function.sig.output, ReturnType::Type(_, ty) if types::response(ty).is_some());
    let borrows = || {
        let mut own = function.typed().filter(|typed| tx_param(typed).is_none());
        own.any(|typed| types::reference(&typed.ty).is_some())
    };
    match Kind::of(args, function) {
        Some(Kind::Consumer) => !responds,
        Some(Kind::Request | Kind::Webhook) => false,
        None => !responds && borrows(),
    }
}

/// The function as written, under a name that no lint calls unused.
fn nested(private: &TokenStream, function: &Function) -> TokenStream {
    let Some(body) = function.block().filter(|_| function.nests()) else {
        return TokenStream::new();
    };
    let mut sig = function.sig.clone();
    sig.asyncness = sig.asyncness.or_else(|| Some(syn::token::Async(sig.fn_token.span)));
    sig.ident = format_ident!("_{}", sig.ident, span = sig.ident.span());
    let inner = &function.attributes.inner;
    let debug = debug(private, function);
    quote!(#(#inner)* #sig #body #debug)
}

/// A handler for `debug_handler` to check, so that its import stays used.
fn debug(private: &TokenStream, function: &Function) -> TokenStream {
    let attributes = function.attributes.debug.as_slice();
    if attributes.is_empty() {
        return TokenStream::new();
    }
    quote_spanned! {Span::mixed_site()=>
        const _: () = {
            #(#attributes)*
            async fn debug() -> #private::Response {
                #private::never().await
            }
            let _ = debug;
        };
    }
}
