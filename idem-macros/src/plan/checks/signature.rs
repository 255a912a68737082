//! The rules for the signature of a handler or a consumer.
//! The types of its parameters are checked in `parameters` and `consumer`.

use syn::Safety;

use crate::{
    errors::Errors,
    item::{Body, Function},
    plan::kind::Kind,
};

pub(super) fn has_body(function: &Function, kind: Kind, errors: &mut Errors) {
    if let Body::Missing(found) = &function.body {
        let message = format!("a {} needs a body: write it in braces", kind.noun());
        if found.is_empty() { errors.on(&function.sig.ident, message) } else { errors.on(found, message) }
    }
}

pub(super) fn qualifiers(function: &Function, kind: Kind, errors: &mut Errors) {
    let (noun, sig) = (kind.noun(), &function.sig);
    if let Some(token) = &sig.constness {
        errors.on(token, format!("a {noun} cannot be `const`: remove it"));
    }
    if let Safety::Unsafe(token) = &sig.safety {
        errors.on(token, format!("a {noun} cannot be `unsafe`: remove it"));
    }
    if let Some(token) = &sig.abi {
        errors.on(token, format!("a {noun} cannot be `extern`: remove it"));
    }
    if sig.asyncness.is_none() && sig.constness.is_none() {
        errors.on(sig.fn_token, format!("a {noun} is asynchronous: write `async fn`"));
    }
}

pub(super) fn generics(function: &Function, kind: Kind, errors: &mut Errors) {
    let (noun, generics) = (kind.noun(), &function.sig.generics);
    if generics.lt_token.is_some() {
        errors.on(generics, format!("a {noun} cannot be generic: write concrete types"));
    }
    if let Some(clause) = &generics.where_clause {
        errors.on(clause, format!("a {noun} cannot have a `where` clause: write concrete types"));
    }
}

pub(super) fn receiver(function: &Function, kind: Kind, errors: &mut Errors) {
    let noun = kind.noun();
    if let Some(receiver) = function.sig.receiver() {
        let instead = match kind {
            Kind::Request | Kind::Webhook => "take its state by an extractor, such as `State<…>`",
            Kind::Consumer => "take what it needs as parameters",
        };
        errors.on(receiver, format!("a {noun} is a free function: {instead}"));
    }
    if let Some(dots) = &function.sig.variadic {
        errors.on(dots, format!("a {noun} cannot be variadic: remove the dots"));
    }
}
