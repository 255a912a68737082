//! `Plan` to tokens, with nothing left to decide.
//! Straight-line code whose size grows with the parameters; all that can be a function is one, in `__private`.

use proc_macro2::{Delimiter, Group, Ident, Literal, Span, TokenStream, TokenTree};
use quote::{ToTokens as _, format_ident, quote, quote_spanned};
use syn::{Path, Type, ext::IdentExt as _, spanned::Spanned as _};

use crate::{
    args::{Setting, Value},
    plan::{Parameter, Plan, Returns},
    types,
};

/// The handler that axum gets, with the user's own inside.
pub(crate) fn expand(when: &TokenStream, plan: &Plan<'_>) -> TokenStream {
    let root = root(plan.krate);
    let (outer, vis, name) = (&plan.handler.outer, plan.vis, &plan.handler.sig.ident);
    let (inner, debug_copy) = (inner(plan), debug_copy(&root, plan));
    let (parameter, handler) = (parameter(&root, plan), handler(&root, plan, Function::Named));
    let (scope, attempts) = (scope(&root, plan), attempts(&root, plan));
    // With the user's own first and last token it is the user's item: if no route uses it, rustc says so.
    let (asynchronous, function) = (plan.handler.sig.asyncness, plan.handler.sig.fn_token);
    let signature = quote_spanned! {Span::mixed_site()=>
        #asynchronous #function #name(#parameter) -> #root::Response
    };
    let run = quote_spanned! {Span::mixed_site()=>
        let scope = #scope;
        let (tasks, mut attempts) = call.begin(const { &#handler }, scope);
        #attempts
    };
    let mut body = Group::new(Delimiter::Brace, quote!(#inner #debug_copy #run));
    body.set_span(plan.body.span());
    let documented = documented(&root, plan);
    quote!(#when #(#outer)* #vis #signature #body #when #documented)
}

/// What an `utoipa::path` beside us is told, if idem-runtime has that feature; else nothing. Does not name the handler,
/// which may be one that nobody is to use, or that nobody uses.
fn documented(root: &TokenStream, plan: &Plan<'_>) -> TokenStream {
    let name = plan.handler.sig.ident.unraw();
    let path = format_ident!("__path_{name}", span = Span::mixed_site());
    let fallback = format_ident!("_documented_{name}", span = Span::mixed_site());
    let handler = handler(root, plan, Function::Unnamed);
    quote_spanned!(Span::mixed_site()=> #root::documented! { #path #fallback #handler.choices() })
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

fn extractors<'p>(plan: &'p Plan<'p>) -> impl Iterator<Item = (&'p Type, &'p Ident)> {
    plan.parameters.iter().filter_map(|parameter| match parameter {
        Parameter::Lent => None,
        Parameter::Extractor { ty, name } => Some((*ty, name)),
    })
}

/// The one parameter of the handler that axum gets.
fn parameter(root: &TokenStream, plan: &Plan<'_>) -> TokenStream {
    let declared = declared(root, plan);
    let (caret, root) = at_lent(plan);
    let (effects, types) = (effects(plan), extractors(plan).map(|(ty, _)| ty));
    quote_spanned!(caret=> call: #root::Call<#effects, (#(#types,)*), #declared>)
}

/// What a document says of the handler, in its type, where any document finds it.
fn declared(root: &TokenStream, plan: &Plan<'_>) -> TokenStream {
    let returned = match plan.returns {
        Returns::Nothing => quote!(()),
        Returns::Named(ty) if types::outlives(ty) => ty.to_token_stream(),
        Returns::Named(_) | Returns::Opaque(_) => quote_spanned!(Span::mixed_site()=> #root::Unnamed),
    };
    let handler = handler(root, plan, Function::Unnamed);
    quote_spanned!(Span::mixed_site()=> #root::Declared<#returned, { #handler.choices() }>)
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
    (caret, root(plan.krate).into_iter().map(|token| moved(token, caret)).collect())
}

/// The user's function, token for token, in a block with one statement more: naming the scope uses it, so that a
/// parameter which is nothing but the scope is no unused variable.
fn inner(plan: &Plan<'_>) -> TokenStream {
    let (attributes, signature, scope) = (&plan.handler.inner, &plan.handler.sig, &plan.scope.name);
    let body = plan.body.to_token_stream();
    let mut block = Group::new(Delimiter::Brace, quote_spanned!(Span::mixed_site()=> let _ = &#scope; #body));
    block.set_span(plan.body.span());
    quote!(#(#attributes)* #signature #block)
}

/// The same extractors without what is lent, for `debug_handler` to check, and the state they come from.
fn debug_copy(root: &TokenStream, plan: &Plan<'_>) -> TokenStream {
    let Some(debug_copy) = &plan.debug_copy else {
        return TokenStream::new();
    };
    let (attributes, name, effects) = (debug_copy.attributes, &plan.handler.sig.ident, effects(plan));
    let types = extractors(plan).map(|(ty, _)| ty);
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

/// The scope, read off the arguments before the first claim takes them.
fn scope(root: &TokenStream, plan: &Plan<'_>) -> TokenStream {
    let binding = &plan.scope.binding;
    let patterns = plan.scope.patterns.iter().map(|pattern| pattern.clone().unwrap_or_else(|| quote!(_)));
    quote_spanned! {Span::mixed_site()=> {
        let (#(#patterns,)*) = call.arguments();
        #root::scope_of(#binding)
    } }
}

/// Claim, run, settle; again where the database asks for it.
fn attempts(root: &TokenStream, plan: &Plan<'_>) -> TokenStream {
    let name = &plan.handler.sig.ident;
    let names: Vec<_> = extractors(plan).map(|(_, name)| name).collect();
    let arguments = plan.parameters.iter().map(|parameter| match parameter {
        Parameter::Lent => quote_spanned!(Span::mixed_site()=> claim.lent()),
        Parameter::Extractor { name, .. } => quote!(#name),
    });
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
fn handler(root: &TokenStream, plan: &Plan<'_>, function: Function) -> TokenStream {
    let operation = &plan.operation;
    let rule = if plan.and_endpoint { "AccountAndEndpoint" } else { "Account" };
    let rule = Ident::new(rule, Span::mixed_site());
    let retention = plan.retention.map(|seconds| {
        let seconds = Literal::u64_unsuffixed(seconds);
        quote_spanned!(Span::mixed_site()=> .retention(#seconds))
    });
    let settings = plan.settings.iter().map(|setting| set(root, setting, function));
    quote_spanned! {Span::mixed_site()=>
        #root::Handler::new(#operation, #root::ScopeRule::#rule) #retention #(#settings)*
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
