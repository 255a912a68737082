//! The consumer: a function for the user's own code. It takes the `Idempotency` first, then all parameters but the
//! transaction, and returns the outcome.

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;
use syn::{Type, spanned::Spanned as _};

use super::{
    at_tx_type, call, extractors,
    handler::Parts,
    options::handler_options,
    paths::{at, consumer_result},
    read,
};
use crate::{
    item::types,
    plan::{Access, Plan, Returns},
};

pub(super) fn consumer(private: &TokenStream, plan: &Plan<'_>, id: &Access, payload: Option<&Access>) -> Parts {
    let (returned, form) = match plan.returns {
        Returns::Owned(ty) | Returns::Borrowing(ty) | Returns::Opaque(ty) => {
            (consumer_result(private, ty), at(private, types::caret(ty)))
        }
        Returns::Unit => (TokenStream::new(), private.clone()),
    };
    let form = quote_spanned!(form.span()=> #form::form());
    let begin = begin(private, plan, id, payload);
    let options = handler_options(private, plan);
    let call = call(plan, &quote_spanned!(Span::mixed_site()=> #private::Message::param(&mut __claimed)));
    let run = quote_spanned! {Span::mixed_site()=>
        #begin
        let __form = #form;
        let __claim = #private::message(__idempotency, const { &#options }, __source, __id, __payload);
        let mut __claimed = match __claim.await {
            #private::Result::Ok(__claimed) => __claimed,
            #private::Result::Err(__unclaimed) => return #private::Unclaimed::into_result(__unclaimed, __form),
        };
        let __probe = #private::ResultProbe(#private::caught(#call).await);
        let __result = {
            use #private::ResultFallback as _;
            __probe.__result()
        };
        return #private::Message::settle(__claimed, __form, __result).await;
    };
    (signature(plan, &returned), run, TokenStream::new())
}

fn signature(plan: &Plan<'_>, returned: &TokenStream) -> TokenStream {
    let signature = &plan.function.sig;
    let (asynchronous, function, name) = (signature.asyncness, signature.fn_token, &signature.ident);
    let (caret, private) = at_tx_type(plan);
    let tx_type = plan.tx_type;
    let idempotency = quote_spanned!(caret=> __idempotency: &#private::IdempotencyOn<#tx_type>);
    let (types, names): (Vec<&Type>, Vec<_>) = extractors(plan).unzip();
    quote_spanned! {Span::mixed_site()=>
        #asynchronous #function #name(#idempotency, #(#names: #types),*) -> #returned
    }
}

/// Source, id and payload of the message, read off the parameters.
fn begin(private: &TokenStream, plan: &Plan<'_>, id: &Access, payload: Option<&Access>) -> TokenStream {
    let names = extractors(plan).map(|(_, name)| name);
    let borrowed = quote_spanned!(Span::mixed_site()=> (#(&#names,)*));
    let source = read(private, "scope_of", &plan.scope, &borrowed);
    let id = read(private, "message_id_of", id, &borrowed);
    let payload = match payload {
        None => quote_spanned!(Span::mixed_site()=> #private::Result::Ok(#private::Payload::NONE)),
        Some(payload) => read(private, "payload_of", payload, &borrowed),
    };
    quote_spanned! {Span::mixed_site()=>
        let __source = #source;
        let __id = #id;
        let __payload = #payload;
    }
}
