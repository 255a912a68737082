//! `cfg` on parameters: one variant of the handler for each answer the predicates can have.
//! rustc keeps the one whose `cfg` holds; the others are never looked at.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Attribute, FnArg, Meta};

use crate::{errors::Errors, item::function::Handler};

/// More predicates than this would make more than 64 variants.
const MOST_PREDICATES: usize = 6;

/// The handler as it is where the attributes in `when` hold.
pub(crate) struct Variant {
    pub(crate) when: TokenStream,
    pub(crate) handler: Handler,
}

/// Every variant of `handler`; of a handler without `cfg` on a parameter, itself.
pub(crate) fn variants(handler: &Handler, errors: &mut Errors) -> Vec<Variant> {
    let mut predicates: Vec<TokenStream> = Vec::new();
    for predicate in handler.sig.inputs.iter().filter_map(predicate) {
        if !predicates.iter().any(|known| same(known, &predicate)) {
            predicates.push(predicate);
        }
    }
    if predicates.len() > MOST_PREDICATES {
        errors.on(&handler.sig.inputs, "too many different `cfg`s on parameters: at most 6");
        return vec![Variant { when: TokenStream::new(), handler: handler.clone() }];
    }
    (0..1_usize << predicates.len())
        .map(|answers| {
            let holds = |index: usize| answers >> index & 1 == 0;
            let when = predicates.iter().enumerate().map(|(index, predicate)| {
                if holds(index) { quote!(#[cfg(#predicate)]) } else { quote!(#[cfg(not(#predicate))]) }
            });
            let stands = |argument: &FnArg| {
                predicate(argument).is_none_or(|own| {
                    predicates.iter().enumerate().any(|(index, known)| holds(index) && same(known, &own))
                })
            };
            Variant { when: when.collect(), handler: with(handler, stands) }
        })
        .collect()
}

/// `handler` with the parameters that stand, their `cfg`s gone.
fn with(handler: &Handler, stands: impl Fn(&FnArg) -> bool) -> Handler {
    let mut handler = handler.clone();
    handler.sig.inputs = handler.sig.inputs.into_iter().filter(stands).collect();
    for argument in &mut handler.sig.inputs {
        attributes_mut(argument).retain(|attribute| !attribute.path().is_ident("cfg"));
    }
    handler
}

/// What all `cfg`s of a parameter demand, or `None` where it has none.
fn predicate(argument: &FnArg) -> Option<TokenStream> {
    let attributes = match argument {
        FnArg::Receiver(receiver) => &receiver.attrs,
        FnArg::Typed(typed) => &typed.attrs,
    };
    let mut all: Vec<_> = attributes.iter().filter_map(demand).collect();
    match all.len() {
        0 | 1 => all.pop(),
        _ => Some(quote!(all(#(#all),*))),
    }
}

fn demand(attribute: &Attribute) -> Option<TokenStream> {
    match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => Some(list.tokens.to_token_stream()),
        _ => None,
    }
}

fn attributes_mut(argument: &mut FnArg) -> &mut Vec<Attribute> {
    match argument {
        FnArg::Receiver(receiver) => &mut receiver.attrs,
        FnArg::Typed(typed) => &mut typed.attrs,
    }
}

fn same(a: &TokenStream, b: &TokenStream) -> bool {
    a.to_string() == b.to_string()
}
