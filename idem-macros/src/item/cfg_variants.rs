//! `cfg` on parameters: one variant of the function for each combination of the predicates.
//! rustc keeps the variant whose `cfg` holds and never looks at the others.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Attribute, FnArg, Meta};

use super::{attributes::conditional, function::Function};
use crate::errors::Errors;

/// More predicates would make more than 64 variants.
const MAX_PREDICATES: usize = 6;

/// The function under the `cfg` attributes in `when`.
pub(crate) struct Variant {
    pub(crate) when: TokenStream,
    pub(crate) function: Function,
}

/// Returns every variant of `function`. If no parameter has a `cfg`, that is the function itself.
pub(crate) fn variants(function: &Function, errors: &mut Errors) -> Vec<Variant> {
    let mut predicates: Vec<TokenStream> = Vec::new();
    for predicate in function.sig.inputs.iter().filter_map(predicate) {
        if !predicates.iter().any(|known| same(known, &predicate)) {
            predicates.push(predicate);
        }
    }
    if predicates.len() > MAX_PREDICATES {
        errors.on(&function.sig.inputs, format!(
                "expected at most {MAX_PREDICATES} different `cfg`s on parameters, found {}: join some in one `cfg(all(…))`",
                predicates.len()
            ));
        return vec![Variant { when: TokenStream::new(), function: function.clone() }];
    }
    (0..1_usize << predicates.len())
        .map(|combination| {
            let holds = |index: usize| combination >> index & 1 == 0;
            let when = predicates.iter().enumerate().map(|(index, predicate)| {
                if holds(index) { quote!(#[cfg(#predicate)]) } else { quote!(#[cfg(not(#predicate))]) }
            });
            let is_kept = |argument: &FnArg| {
                predicate(argument).is_none_or(|own| {
                    predicates.iter().enumerate().any(|(index, known)| holds(index) && same(known, &own))
                })
            };
            Variant { when: when.collect(), function: with(function, is_kept) }
        })
        .collect()
}

/// `function` with the parameters that are kept, without their `cfg`s.
fn with(function: &Function, is_kept: impl Fn(&FnArg) -> bool) -> Function {
    let mut function = function.clone();
    function.sig.inputs = function.sig.inputs.into_iter().filter(is_kept).collect();
    for argument in &mut function.sig.inputs {
        let attributes = attributes_mut(argument);
        *attributes = std::mem::take(attributes).into_iter().filter_map(without_demand).collect();
    }
    function
}

/// All `cfg`s of a parameter as one predicate.
fn predicate(argument: &FnArg) -> Option<TokenStream> {
    let attributes = match argument {
        FnArg::Receiver(receiver) => &receiver.attrs,
        FnArg::Typed(typed) => &typed.attrs,
    };
    let mut all: Vec<_> = attributes.iter().filter_map(cfg_predicate).collect();
    match all.len() {
        0 | 1 => all.pop(),
        _ => Some(quote!(all(#(#all),*))),
    }
}

/// What `attribute` demands, if it is a `cfg`, or a `cfg_attr` with one in it.
fn cfg_predicate(attribute: &Attribute) -> Option<TokenStream> {
    demand_of(&attribute.meta)
}

fn demand_of(meta: &Meta) -> Option<TokenStream> {
    let Meta::List(list) = meta else { return None };
    if list.path.is_ident("cfg") {
        return Some(list.tokens.to_token_stream());
    }
    let (predicate, metas) = conditional(meta)?;
    let demands: Vec<_> = metas.iter().filter_map(demand_of).collect();
    (!demands.is_empty()).then(|| quote!(any(not(#predicate), all(#(#demands),*))))
}

/// `attribute` without the `cfg`s in it. `None`: nothing is left.
fn without_demand(mut attribute: Attribute) -> Option<Attribute> {
    attribute.meta = without_demand_of(attribute.meta)?;
    Some(attribute)
}

fn without_demand_of(meta: Meta) -> Option<Meta> {
    if demand_of(&meta).is_none() {
        return Some(meta);
    }
    let (predicate, metas) = conditional(&meta)?;
    let kept: Vec<_> = metas.into_iter().filter_map(without_demand_of).collect();
    let Meta::List(mut list) = meta else { return None };
    list.tokens = quote!(#predicate, #(#kept),*);
    (!kept.is_empty()).then_some(Meta::List(list))
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
