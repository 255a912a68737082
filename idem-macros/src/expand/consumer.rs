//! The consumer: a function for the user's own code. It takes the `Idempotency` first, then all parameters but the
//! transaction, and returns what became of the message.

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;
use syn::{Type, spanned::Spanned as _};

use super::{
    arguments, at_tx_type, extractors,
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
    let name = &plan.function.sig.ident;
    let arguments = arguments(plan, &quote_spanned!(Span::mixed_site()=> claimed.param()));
    let run = quote_spanned! {Span::mixed_site()=>
        #begin
        let form = #form;
        let mut claimed = match #private::message(idempotency, const { &#options }, source, id, payload).await {
            Ok(claimed) => claimed,
            Err(unclaimed) => return unclaimed.into_result(form),
        };
        let probe = #private::ResultProbe(#private::caught(#name(#(#arguments),*)).await);
        let result = {
            use #private::ResultFallback as _;
            probe.result()
        };
        return claimed.settle(form, result).await;
    };
    (signature(plan, &returned), run, TokenStream::new())
}

fn signature(plan: &Plan<'_>, returned: &TokenStream) -> TokenStream {
    let signature = &plan.function.sig;
    let (asynchronous, function, name) = (signature.asyncness, signature.fn_token, &signature.ident);
    let (caret, private) = at_tx_type(plan);
    let tx_type = plan.tx_type;
    let idempotency = quote_spanned!(caret=> idempotency: &#private::IdempotencyOn<#tx_type>);
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
    let id = read(private, "event_id", id, &borrowed);
    let payload = match payload {
        None => quote_spanned!(Span::mixed_site()=> #private::Payload::NONE),
        Some(payload) => read(private, "payload_of", payload, &borrowed),
    };
    quote_spanned! {Span::mixed_site()=>
        let source = #source;
        let id = #id;
        let payload = #payload;
    }
}
