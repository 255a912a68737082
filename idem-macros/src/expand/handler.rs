//! The axum handler: its one parameter is the whole call, its body claims the key, runs the user's function and settles.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote_spanned;
use syn::spanned::Spanned as _;

use super::{at_tx_type, call, extractors, marker, openapi, paths::at, read};
use crate::plan::{Access, Plan, Returns};

/// Signature, body, and what stands beside.
pub(super) type Parts = (TokenStream, TokenStream, TokenStream);

/// A handler whose key is in a header.
pub(super) fn of_requests(private: &TokenStream, plan: &Plan<'_>, when: &TokenStream) -> Parts {
    handler(private, plan, &quote_spanned!(Span::mixed_site()=> #private::Call::begin(__call, __scope)), when)
}

/// A handler whose key is in the event that it receives.
pub(super) fn of_events(private: &TokenStream, plan: &Plan<'_>, id: &Access, when: &TokenStream) -> Parts {
    let id = read(private, "message_id_of", id, &call_arguments(private));
    let begin = quote_spanned! {Span::mixed_site()=> {
        let __id = #id;
        #private::Call::begin_event(__call, __scope, __id)
    } };
    handler(private, plan, &begin, when)
}

fn handler(private: &TokenStream, plan: &Plan<'_>, begin: &TokenStream, when: &TokenStream) -> Parts {
    let marker = marker::name(plan);
    let (parameter, debug_copy) = (parameter(private, plan, &marker), debug_copy(private, plan));
    let signature = &plan.function.sig;
    // With the user's own first and last token it is the user's item: if no route uses it, rustc says so.
    let (asynchronous, function, name) = (signature.asyncness, signature.fn_token, &signature.ident);
    let signature = quote_spanned! {Span::mixed_site()=>
        #asynchronous #function #name(#parameter) -> #private::Response
    };
    let scope = read(private, "scope_of", &plan.scope, &call_arguments(private));
    let attempts = attempts(private, plan);
    let run = quote_spanned! {Span::mixed_site()=>
        #debug_copy
        let __scope = #scope;
        let (__tasks, mut __attempts) = #begin;
        #attempts
    };
    let mut beside = marker::items(private, when, plan, &marker);
    beside.extend(openapi::utoipa_path(private, when, plan, &marker));
    (signature, run, beside)
}

fn call_arguments(private: &TokenStream) -> TokenStream {
    quote_spanned!(Span::mixed_site()=> #private::Call::arguments(&__call))
}

/// The one parameter of the handler that axum gets.
fn parameter(private: &TokenStream, plan: &Plan<'_>, marker: &Ident) -> TokenStream {
    let returned = openapi::returned(private, plan);
    let (caret, private) = at_tx_type(plan);
    let (effects, types) = (effects(plan), extractors(plan).map(|(ty, _)| ty));
    quote_spanned!(caret=> __call: #private::Call<#effects, (#(#types,)*), #returned, #marker>)
}

/// The effects that the type behind `&mut` stands for, and with them the database.
fn effects(plan: &Plan<'_>) -> TokenStream {
    let (caret, private) = at_tx_type(plan);
    let (tx_type, effects_trait) = (plan.tx_type, Ident::new(plan.effects_trait, caret));
    quote_spanned!(caret=> <#tx_type as #private::#effects_trait>::Effects)
}

/// The same extractors without the transaction, for `debug_handler` to check, and the state that they come from.
fn debug_copy(private: &TokenStream, plan: &Plan<'_>) -> TokenStream {
    let Some(debug_copy) = &plan.debug_copy else {
        return TokenStream::new();
    };
    let (attributes, name, effects) = (debug_copy.attributes, &plan.function.sig.ident, effects(plan));
    let types = extractors(plan).map(|(ty, _)| ty);
    let state = debug_copy.state.iter();
    quote_spanned! {Span::mixed_site()=>
        const _: () = {
            #(#attributes)*
            async fn #name(#(_: #types),*) -> #private::Response {
                #private::never().await
            }
            let _ = #name;
            #(let _ = #private::holds::<#state, #effects>;)*
        };
    }
}

/// Claim, run, settle. The loop runs again only if the database demands that.
fn attempts(private: &TokenStream, plan: &Plan<'_>) -> TokenStream {
    let names: Vec<_> = extractors(plan).map(|(_, name)| name).collect();
    let call = call(plan, &quote_spanned!(Span::mixed_site()=> #private::RunningAttempt::param(&mut __claim)));
    let outcome = outcome(private, plan);
    let attempts = quote_spanned! {Span::mixed_site()=>
        loop {
            let (mut __claim, (#(#names,)*)) = match #private::Attempts::claim(&mut __attempts).await {
                #private::Result::Ok(__claimed) => __claimed,
                #private::Result::Err(__response) => return __response,
            };
            let __result = #private::caught(#call).await;
            let __cause = {
                use #private::{CauseViaError as _, CauseFallback as _};
                (&&#private::Probe(&__result)).__cause()
            };
            let __outcome = #outcome;
            if let #private::Option::Some(__response) = #private::Attempts::settle(&mut __attempts, __claim, __outcome).await {
                return __response;
            }
        }
    };
    // A body that is not `Send` is reported at the handler's name.
    let caret = Span::mixed_site().located_at(plan.function.sig.ident.span());
    let private = at(private, caret);
    quote_spanned!(caret=> return #private::Tasks::run(__tasks, async move { #attempts }).await;)
}

/// The conversion of the result, with its bound at the user's return type.
fn outcome(private: &TokenStream, plan: &Plan<'_>) -> TokenStream {
    match plan.returns {
        Returns::Unit => quote_spanned!(Span::mixed_site()=> #private::outcome(__result, __cause)),
        Returns::Owned(ty) | Returns::Borrowing(ty) => {
            quote_spanned!(Span::mixed_site()=> #private::outcome::<#ty>(__result, __cause))
        }
        Returns::Opaque(ty) => {
            let result = Ident::new("__result", Span::mixed_site().located_at(ty.span()));
            quote_spanned!(Span::mixed_site()=> #private::outcome(#result, __cause))
        }
    }
}
