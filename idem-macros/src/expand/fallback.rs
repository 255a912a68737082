//! The error path: the mistakes, and a stub with the right name and visibility.
//! The stub is a handler for any state, so that the route adds no error of its own.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{Path, ReturnType, Type};

use crate::{
    expand::{done, root},
    item::function::Handler,
    item::parameters::{lent, typed},
    item::types,
    options::args::Args,
    plan::kind::Kind,
};

/// A stub that stands for `handler` and keeps it nested, so that an editor still knows its body.
pub(crate) fn stub(when: &TokenStream, args: &Args, handler: &Handler) -> TokenStream {
    let krate = args.krate.as_ref();
    let (outer, nested) = (&handler.outer, nested(&root(krate), handler));
    if is_called(args, handler) {
        let stub = consumer(&root(krate), handler, &nested);
        return quote!(#when #(#outer)* #stub);
    }
    let attributes = quote!(#when #(#outer)*);
    named(&attributes, krate, &handler.vis, &handler.sig.ident, &nested)
}

/// A stub of which only the name is known.
pub(crate) fn named(
    attributes: &TokenStream,
    krate: Option<&Path>,
    vis: &impl ToTokens,
    name: &Ident,
    nested: &TokenStream,
) -> TokenStream {
    let root = root(krate);
    let stub = quote_spanned! {Span::mixed_site()=>
        async fn #name() -> #root::Response {
            #nested
            #root::never().await
        }
    };
    quote!(#attributes #vis #stub)
}

/// Whether the function was to be a consumer, as far as can be told.
fn is_called(args: &Args, handler: &Handler) -> bool {
    let answers = matches!(&handler.sig.output, ReturnType::Type(_, ty) if types::answer(ty).is_some());
    match args.kind_of(handler) {
        Some(Kind::Messages) => !answers,
        Some(Kind::Requests | Kind::Events) => false,
        None => {
            let mut given = typed(handler).filter(|typed| lent(typed).is_none());
            !answers && given.any(|typed| matches!(&*typed.ty, Type::Reference(_)))
        }
    }
}

/// A stub of a consumer, which can be called as the consumer can.
fn consumer(root: &TokenStream, handler: &Handler, nested: &TokenStream) -> TokenStream {
    let (vis, name) = (&handler.vis, &handler.sig.ident);
    let given = typed(handler).filter(|typed| lent(typed).is_none() && !types::is_connection(types::behind(&typed.ty)));
    let given = given.map(|_| quote_spanned!(Span::mixed_site()=> _: impl ::core::marker::Sized));
    let returned = match &handler.sig.output {
        ReturnType::Type(_, ty) if types::is_result(ty) => done(root, ty),
        _ => quote_spanned!(Span::mixed_site()=> #root::Response),
    };
    let stub = quote_spanned! {Span::mixed_site()=>
        async fn #name(_: &impl ::core::marker::Sized, #(#given),*) -> #returned {
            #nested
            #root::never().await
        }
    };
    quote!(#vis #stub)
}

/// The function as written, under a name that no lint calls unused.
fn nested(root: &TokenStream, handler: &Handler) -> TokenStream {
    let Some(body) = handler.body.as_ref().filter(|_| handler.nests) else {
        return TokenStream::new();
    };
    let mut sig = handler.sig.clone();
    sig.asyncness = sig.asyncness.or_else(|| Some(syn::token::Async(sig.fn_token.span)));
    sig.ident = format_ident!("_{}", sig.ident, span = sig.ident.span());
    let inner = &handler.inner;
    let debug = debug(root, handler);
    quote!(#(#inner)* #sig #body #debug)
}

/// Something for `debug_handler` to stand on, so that its import stays used.
fn debug(root: &TokenStream, handler: &Handler) -> TokenStream {
    let attributes = handler.debug.as_slice();
    if attributes.is_empty() {
        return TokenStream::new();
    }
    quote_spanned! {Span::mixed_site()=>
        const _: () = {
            #(#attributes)*
            async fn debug() -> #root::Response {
                #root::never().await
            }
            let _ = debug;
        };
    }
}
