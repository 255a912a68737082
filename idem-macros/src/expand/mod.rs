//! `Plan` to tokens, with nothing left to decide.
//! Straight-line code whose size grows with the parameters; all that can be a function is one, in `__private`.

pub(crate) mod fallback;

use proc_macro2::{Delimiter, Group, Ident, Literal, Span, TokenStream, TokenTree};
use quote::{ToTokens as _, format_ident, quote, quote_spanned};
use syn::{Path, Type, ext::IdentExt as _, spanned::Spanned as _};

use crate::{
    item::types,
    options::args::{Setting, Value},
    plan::access::Reading,
    plan::{Key, Parameter, Plan, Returns},
};

/// What stands in place of the user's function, with that inside.
pub(crate) fn expand(when: &TokenStream, plan: &Plan<'_>) -> TokenStream {
    let root = root(plan.krate);
    let (outer, vis, inner) = (&plan.handler.outer, plan.vis, inner(plan));
    let (signature, run) = match &plan.key {
        Key::Header => handler(&root, plan, None),
        Key::Event(id) => handler(&root, plan, Some(id)),
        Key::Message { id, payload } => consumer(&root, plan, id, payload.as_ref()),
    };
    let documented = match &plan.key {
        Key::Header | Key::Event(_) => documented(&root, when, plan),
        Key::Message { .. } => TokenStream::new(),
    };
    let mut body = Group::new(Delimiter::Brace, quote!(#inner #run));
    body.set_span(plan.body.span());
    quote!(#when #(#outer)* #vis #signature #body #documented)
}

/// The handler that axum gets.
fn handler(root: &TokenStream, plan: &Plan<'_>, event: Option<&Reading>) -> (TokenStream, TokenStream) {
    let (parameter, name, debug_copy) = (parameter(root, plan), &plan.handler.sig.ident, debug_copy(root, plan));
    // With the user's own first and last token it is the user's item: if no route uses it, rustc says so.
    let (asynchronous, function) = (plan.handler.sig.asyncness, plan.handler.sig.fn_token);
    let signature = quote_spanned! {Span::mixed_site()=>
        #asynchronous #function #name(#parameter) -> #root::Response
    };
    let arguments = quote_spanned!(Span::mixed_site()=> call.arguments());
    let scope = read(root, "scope_of", &plan.scope, &arguments);
    let (declared, attempts) = (declared(root, plan, Function::Named), attempts(root, plan));
    let begin = match event {
        None => quote_spanned!(Span::mixed_site()=> call.begin(const { &#declared }, scope)),
        Some(id) => {
            let id = read(root, "event_id", id, &arguments);
            quote_spanned! {Span::mixed_site()=> {
                let id = #id;
                call.begin_event(const { &#declared }, scope, id)
            } }
        }
    };
    let run = quote_spanned! {Span::mixed_site()=>
        #debug_copy
        let scope = #scope;
        let (tasks, mut attempts) = #begin;
        #attempts
    };
    (signature, run)
}

/// What an `utoipa::path` beside us is told, if idem-runtime has that feature; else nothing. Does not name the handler,
/// which may be one that nobody is to use, or that nobody uses.
fn documented(root: &TokenStream, when: &TokenStream, plan: &Plan<'_>) -> TokenStream {
    let name = plan.handler.sig.ident.unraw();
    let path = format_ident!("__path_{name}", span = Span::mixed_site());
    let fallback = format_ident!("_documented_{name}", span = Span::mixed_site());
    let declared = declared(root, plan, Function::Unnamed);
    quote_spanned!(Span::mixed_site()=> #when #root::documented! { #path #fallback #declared.choices() })
}

/// The function that the user's own code calls for each message: the `Idempotency` first, then all but the transaction.
fn consumer(
    root: &TokenStream,
    plan: &Plan<'_>,
    id: &Reading,
    payload: Option<&Reading>,
) -> (TokenStream, TokenStream) {
    let name = &plan.handler.sig.ident;
    let (asynchronous, function) = (plan.handler.sig.asyncness, plan.handler.sig.fn_token);
    let (caret, at_lent) = at_lent(plan);
    let lent = plan.lent;
    let idempotency = quote_spanned!(caret=> idempotency: &#at_lent::IdempotencyOn<#lent>);
    let (types, names): (Vec<_>, Vec<_>) = given(plan).unzip();
    let (returned, form) = match plan.returns {
        Returns::Named(ty) | Returns::Opaque(ty) => (done(root, ty), at(root, types::caret(ty))),
        Returns::Nothing => (TokenStream::new(), root.clone()),
    };
    let form = quote_spanned!(form.span()=> #form::form());
    let signature = quote_spanned! {Span::mixed_site()=>
        #asynchronous #function #name(#idempotency, #(#names: #types),*) -> #returned
    };
    let borrowed = quote_spanned!(Span::mixed_site()=> (#(&#names,)*));
    let (source, id) = (read(root, "scope_of", &plan.scope, &borrowed), read(root, "event_id", id, &borrowed));
    let payload = match payload {
        None => quote_spanned!(Span::mixed_site()=> #root::Payload::NONE),
        Some(payload) => read(root, "payload_of", payload, &borrowed),
    };
    let declared = declared(root, plan, Function::Named);
    let arguments = arguments(plan, &quote_spanned!(Span::mixed_site()=> claimed.lent()));
    let run = quote_spanned! {Span::mixed_site()=>
        let source = #source;
        let id = #id;
        let payload = #payload;
        let form = #form;
        let mut claimed = match #root::message(idempotency, const { &#declared }, source, id, payload).await {
            Ok(claimed) => claimed,
            Err(unclaimed) => return unclaimed.said(form),
        };
        let came = #root::Came(#root::caught(#name(#(#arguments),*)).await);
        let result = {
            use #root::ElseNoResult as _;
            came.result()
        };
        return claimed.settle(form, result).await;
    };
    (signature, run)
}

/// What a consumer comes to, whose function returns `ty`. What `ty` lacks for that is reported in one place.
pub(crate) fn done(root: &TokenStream, ty: &Type) -> TokenStream {
    let at = at(root, types::caret(ty));
    quote_spanned! {at.span()=>
        #at::Result<#at::Once<<#ty as #at::Returned>::Value>, #at::NotDone<<#ty as #at::Returned>::Error>>
    }
}

/// `…::__private`, its names resolved where the user stands and never linted as the user's.
pub(crate) fn root(krate: Option<&Path>) -> TokenStream {
    match krate {
        None => quote_spanned!(Span::mixed_site()=> ::idem_runtime::__private),
        Some(path) => {
            let path: TokenStream = path.to_token_stream().into_iter().map(unlinted).collect();
            quote_spanned!(Span::mixed_site()=> #path::__private)
        }
    }
}

fn unlinted(token: TokenTree) -> TokenTree {
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

/// The parameters but for what is lent.
fn given<'p>(plan: &'p Plan<'p>) -> impl Iterator<Item = (&'p Type, &'p Ident)> {
    plan.parameters.iter().filter_map(|parameter| match parameter {
        Parameter::Lent => None,
        Parameter::Given { ty, name } => Some((*ty, name)),
    })
}

/// What the user's function is called with.
fn arguments(plan: &Plan<'_>, lent: &TokenStream) -> Vec<TokenStream> {
    let of = |parameter: &Parameter<'_>| match parameter {
        Parameter::Lent => lent.clone(),
        Parameter::Given { name, .. } => quote!(#name),
    };
    plan.parameters.iter().map(of).collect()
}

/// The one parameter of the handler that axum gets.
fn parameter(root: &TokenStream, plan: &Plan<'_>) -> TokenStream {
    let described = described(root, plan);
    let (caret, root) = at_lent(plan);
    let (effects, types) = (effects(plan), given(plan).map(|(ty, _)| ty));
    quote_spanned!(caret=> call: #root::Call<#effects, (#(#types,)*), #described>)
}

/// What a document says of the handler, in its type, where any document finds it.
fn described(root: &TokenStream, plan: &Plan<'_>) -> TokenStream {
    let returned = match plan.returns {
        Returns::Nothing => quote!(()),
        Returns::Named(ty) if types::outlives(ty) => ty.to_token_stream(),
        Returns::Named(_) | Returns::Opaque(_) => quote_spanned!(Span::mixed_site()=> #root::Unnamed),
    };
    let declared = declared(root, plan, Function::Unnamed);
    quote_spanned!(Span::mixed_site()=> #root::Declared<#returned, { #declared.choices() }>)
}

/// The effects, and with them the database, of what the handler is lent.
fn effects(plan: &Plan<'_>) -> TokenStream {
    let (caret, root) = at_lent(plan);
    let (lent, on) = (plan.lent, Ident::new(plan.on, caret));
    quote_spanned!(caret=> <#lent as #root::#on>::Effects)
}

/// A type that cannot be lent is reported wherever it is used: all of that in one place is one report.
fn at_lent(plan: &Plan<'_>) -> (Span, TokenStream) {
    let caret = Span::mixed_site().located_at(types::caret(plan.lent));
    (caret, at(&root(plan.krate), caret))
}

/// `root`, for a message that has its caret there.
fn at(root: &TokenStream, caret: Span) -> TokenStream {
    let caret = Span::mixed_site().located_at(caret);
    root.clone().into_iter().map(|token| moved(token, caret)).collect()
}

/// The user's function, token for token, in a block with a few statements more: naming the scope uses it, so that a
/// parameter which is nothing but the scope is no unused variable. The same for a key and a payload.
fn inner(plan: &Plan<'_>) -> TokenStream {
    let (attributes, signature) = (&plan.handler.inner, &plan.handler.sig);
    let mut read: Vec<_> = vec![&plan.scope.name];
    match &plan.key {
        Key::Header => {}
        Key::Event(id) => read.push(&id.name),
        Key::Message { id, payload } => read.extend(std::iter::once(&id.name).chain(payload.iter().map(|it| &it.name))),
    }
    let body = plan.body.to_token_stream();
    let mut block = Group::new(Delimiter::Brace, quote_spanned!(Span::mixed_site()=> #(let _ = &#read;)* #body));
    block.set_span(plan.body.span());
    quote!(#(#attributes)* #signature #block)
}

/// The same extractors without what is lent, for `debug_handler` to check, and the state they come from.
fn debug_copy(root: &TokenStream, plan: &Plan<'_>) -> TokenStream {
    let Some(debug_copy) = &plan.debug_copy else {
        return TokenStream::new();
    };
    let (attributes, name, effects) = (debug_copy.attributes, &plan.handler.sig.ident, effects(plan));
    let types = given(plan).map(|(ty, _)| ty);
    let state = debug_copy.state.iter();
    quote_spanned! {Span::mixed_site()=>
        const _: () = {
            #(#attributes)*
            async fn #name(#(_: #types),*) -> #root::Response {
                #root::never().await
            }
            let _ = #name;
            #(let _ = #root::holds::<#state, #effects>;)*
        };
    }
}

/// What a function makes of something in the arguments, read off them before the body takes them.
fn read(root: &TokenStream, function: &str, reading: &Reading, arguments: &TokenStream) -> TokenStream {
    let (value, function) = (&reading.value, Ident::new(function, Span::mixed_site()));
    let patterns = reading.patterns.iter().map(|pattern| pattern.clone().unwrap_or_else(|| quote!(_)));
    quote_spanned! {Span::mixed_site()=> {
        let (#(#patterns,)*) = #arguments;
        #root::#function(#value)
    } }
}

/// Claim, run, settle; again where the database asks for it.
fn attempts(root: &TokenStream, plan: &Plan<'_>) -> TokenStream {
    let name = &plan.handler.sig.ident;
    let names: Vec<_> = given(plan).map(|(_, name)| name).collect();
    let arguments = arguments(plan, &quote_spanned!(Span::mixed_site()=> claim.lent()));
    let outcome = outcome(root, plan);
    let attempts = quote_spanned! {Span::mixed_site()=>
        loop {
            let (mut claim, (#(#names,)*)) = match attempts.claim().await {
                Ok(claimed) => claimed,
                Err(response) => return response,
            };
            let result = #root::caught(#name(#(#arguments),*)).await;
            let cause = {
                use #root::{ByError as _, ByNothing as _};
                (&&#root::Probe(&result)).cause()
            };
            let outcome = #outcome;
            if let Some(response) = claim.settle(outcome).await {
                return response;
            }
        }
    };
    // A body that is not `Send` is reported at the handler's name.
    let caret = Span::mixed_site().located_at(name.span());
    quote_spanned!(caret=> return tasks.run(async move { #attempts }).await;)
}

/// The conversion of the result, with its bound at the user's return type.
fn outcome(root: &TokenStream, plan: &Plan<'_>) -> TokenStream {
    match plan.returns {
        Returns::Nothing => quote_spanned!(Span::mixed_site()=> #root::outcome(result, cause)),
        Returns::Named(ty) => {
            quote_spanned!(Span::mixed_site()=> #root::outcome::<#ty>(result, cause))
        }
        Returns::Opaque(ty) => {
            let result = Ident::new("result", Span::mixed_site().located_at(ty.span()));
            quote_spanned!(Span::mixed_site()=> #root::outcome(#result, cause))
        }
    }
}

/// How a constant has the function of `fingerprint = path`.
#[derive(Clone, Copy)]
enum Function {
    Named,
    /// As one of ours, so that a mistake in the path is reported once.
    Unnamed,
}

/// What the attribute says, as a constant.
fn declared(root: &TokenStream, plan: &Plan<'_>, function: Function) -> TokenStream {
    let operation = &plan.operation;
    let new = if let Key::Event(_) = plan.key {
        quote_spanned!(Span::mixed_site()=> #root::Handler::of_events(#operation))
    } else {
        let rule = if plan.and_endpoint { "AccountAndEndpoint" } else { "Account" };
        let rule = Ident::new(rule, Span::mixed_site());
        quote_spanned!(Span::mixed_site()=> #root::Handler::new(#operation, #root::ScopeRule::#rule))
    };
    let retention = plan.retention.map(|seconds| {
        let seconds = Literal::u64_unsuffixed(seconds);
        quote_spanned!(Span::mixed_site()=> .retention(#seconds))
    });
    let settings = plan.settings.iter().map(|setting| set(root, setting, function));
    quote_spanned! {Span::mixed_site()=>
        #new #retention #(#settings)*
    }
}

fn set(root: &TokenStream, setting: &Setting, function: Function) -> TokenStream {
    let option = Ident::new(setting.option, Span::mixed_site());
    let value = match &setting.value {
        Value::Variant { of, variant } => {
            let (of, variant) = (Ident::new(of, Span::mixed_site()), Ident::new(variant, Span::mixed_site()));
            quote_spanned!(Span::mixed_site()=> #root::#of::#variant)
        }
        Value::Declared(path) => {
            let path = match function {
                Function::Named => path.to_token_stream(),
                Function::Unnamed => quote_spanned!(Span::mixed_site()=> #root::declared),
            };
            quote_spanned!(Span::mixed_site()=> #root::Fingerprint::Declared(#path))
        }
        Value::Wait { milliseconds } => {
            let milliseconds = Literal::u64_unsuffixed(*milliseconds);
            quote_spanned!(Span::mixed_site()=> #root::InProgress::Wait(#root::Duration::from_millis(#milliseconds)))
        }
        Value::Number(number) => Literal::u64_unsuffixed(*number).into_token_stream(),
        Value::Bare => TokenStream::new(),
    };
    quote_spanned!(Span::mixed_site()=> .#option(#value))
}
