//! `Plan` to tokens. Straight-line code: all that can be a function is one, in the runtime's `__private`.
//! Names nothing that a user's item can hide: paths from the root, methods by path, locals with `__` before their name.

mod consumer;
mod fallback;
mod handler;
mod marker;
mod openapi;
mod options;
mod paths;

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::Type;

pub(crate) use self::fallback::{named, stub};

use self::paths::{at, private};
use crate::{
    item::types,
    plan::{Access, Key, Parameter, Plan},
};

/// What takes the place of the user's function. The function is inside.
pub(crate) fn expand(when: &TokenStream, plan: &Plan<'_>) -> TokenStream {
    let private = private(plan.crate_path);
    let (outer, vis, inner) = (&plan.function.attributes.outer, &plan.function.vis, inner(plan));
    let (signature, run, utoipa) = match &plan.key {
        Key::Header => handler::of_requests(&private, plan, when),
        Key::Event(id) => handler::of_events(&private, plan, id, when),
        Key::Message { id, payload } => consumer::consumer(&private, plan, id, payload.as_ref()),
    };
    let mut body = Group::new(Delimiter::Brace, quote!(#inner #run));
    body.set_span(plan.body.span());
    quote!(#when #(#outer)* #vis #signature #body #utoipa)
}

/// The user's function, token for token, as a local variable. Its own name ends with the block that it is in, so that it
/// may be any name, also one of the expansion's.
///
/// Before its body, a few statements use the parameters that the options name, so that a parameter which is only the
/// scope, the key or the payload is no unused variable.
fn inner(plan: &Plan<'_>) -> TokenStream {
    let (attributes, signature) = (&plan.function.attributes.inner, &plan.function.sig);
    let mut read: Vec<_> = vec![&plan.scope.name];
    match &plan.key {
        Key::Header => {}
        Key::Event(id) => read.push(&id.name),
        Key::Message { id, payload } => read.extend(std::iter::once(&id.name).chain(payload.iter().map(|it| &it.name))),
    }
    // Without the label rustc would call the braces around one line superfluous.
    let body = plan.body;
    let mut block =
        Group::new(Delimiter::Brace, quote_spanned!(Span::mixed_site()=> #(let _ = &#read;)* '_body: #body));
    block.set_span(plan.body.span());
    let name = &signature.ident;
    quote_spanned! {Span::mixed_site()=>
        let __function = {
            #(#attributes)*
            #signature #block
            #name
        };
    }
}

/// The types and names of the parameters except the transaction or the attempt.
fn extractors<'p>(plan: &'p Plan<'p>) -> impl Iterator<Item = (&'p Type, &'p Ident)> {
    plan.parameters.iter().filter_map(|parameter| match parameter {
        Parameter::Tx => None,
        Parameter::Extractor { ty, name } => Some((*ty, name)),
    })
}

/// The call of the user's function, with `tx` as its transaction or attempt.
fn call(plan: &Plan<'_>, tx: &TokenStream) -> TokenStream {
    let of = |parameter: &Parameter<'_>| match parameter {
        Parameter::Tx => tx.clone(),
        Parameter::Extractor { name, .. } => quote!(#name),
    };
    let arguments = plan.parameters.iter().map(of);
    let function = Ident::new("__function", Span::mixed_site().located_at(plan.function.sig.ident.span()));
    quote_spanned!(Span::mixed_site()=> #function(#(#arguments),*))
}

/// The place of the type behind `&mut`, and `__private` there. A type that the runtime does not accept is reported
/// wherever it is used; all of these in one place are one report.
fn at_tx_type(plan: &Plan<'_>) -> (Span, TokenStream) {
    let caret = Span::mixed_site().located_at(types::caret(plan.tx_type));
    (caret, at(&private(plan.crate_path), caret))
}

/// What the runtime's `function` makes of something in the arguments, or its panic. It is read before the body takes them.
fn read(private: &TokenStream, function: &str, access: &Access, arguments: &TokenStream) -> TokenStream {
    let (value, function) = (&access.value, Ident::new(function, Span::mixed_site()));
    let patterns = access.patterns.iter().map(|pattern| pattern.clone().unwrap_or_else(|| quote!(_)));
    quote_spanned! {Span::mixed_site()=> #private::guarded(|| {
        let (#(#patterns,)*) = #arguments;
        #private::#function(#value)
    }) }
}
