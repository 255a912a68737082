//! The function's other attributes, sorted by where they belong in the expansion.
//! Also reads the state's type from `debug_handler`.

use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens as _, quote};
use syn::{Attribute, Meta, MetaList, Path, Token, punctuated::Punctuated};

use crate::errors::Errors;

#[derive(Clone, Default)]
pub(crate) struct Attributes {
    /// They describe the item to its users: documentation, `cfg`, lints, `utoipa::path`.
    pub(crate) outer: Vec<Attribute>,
    /// They rewrite the function or name its parameters, such as `instrument`.
    pub(crate) inner: Vec<Attribute>,
    /// axum's `debug_handler`, which needs the signature of an axum handler.
    pub(crate) debug: Vec<Attribute>,
}

enum Place {
    Outer,
    Inner,
    Debug,
    Ours,
}

impl Attributes {
    pub(super) fn sort(attributes: &[Attribute], errors: &mut Errors) -> Self {
        let mut sorted = Self::default();
        for attribute in attributes.iter().flat_map(split_cfg_attr) {
            match place(&attribute) {
                Place::Outer => sorted.outer.push(attribute),
                Place::Inner => sorted.inner.push(attribute),
                Place::Debug => sorted.debug.push(attribute),
                Place::Ours => errors.on(&attribute, "`#[idempotent]` is given twice: remove one"),
            }
        }
        sorted
    }
}

/// Splits `#[cfg_attr(p, a, b)]` into `#[cfg_attr(p, a)] #[cfg_attr(p, b)]`: `a` and `b` may belong in different
/// places.
/// `a` may be a `cfg_attr` too: `#[cfg_attr(p, cfg_attr(q, a))]` is `#[cfg_attr(all(p, q), a)]`.
fn split_cfg_attr(attribute: &Attribute) -> Vec<Attribute> {
    let single = |meta: Meta| Attribute { meta, ..attribute.clone() };
    flattened(&attribute.meta).into_iter().map(single).collect()
}

fn flattened(meta: &Meta) -> Vec<Meta> {
    let (Some((outer, metas)), Meta::List(list)) = (conditional(meta), meta) else { return vec![meta.clone()] };
    if metas.is_empty() {
        return vec![meta.clone()];
    }
    let under = |tokens: TokenStream| Meta::List(MetaList { tokens, ..list.clone() });
    let flat = metas.iter().flat_map(flattened).map(|meta| match conditional(&meta) {
        Some((inner, metas)) => under(quote!(all(#outer, #inner), #(#metas),*)),
        None => under(quote!(#outer, #meta)),
    });
    flat.collect()
}

/// The predicate and the attributes of a `cfg_attr`.
pub(super) fn conditional(meta: &Meta) -> Option<(Meta, Vec<Meta>)> {
    let Meta::List(list) = meta else { return None };
    if !list.path.is_ident("cfg_attr") {
        return None;
    }
    let all = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).ok()?;
    let mut all = all.into_iter();
    Some((all.next()?, all.collect()))
}

fn place(attribute: &Attribute) -> Place {
    match conditional(&attribute.meta) {
        Some((_, metas)) => metas.first().map_or(Place::Outer, |meta| place_of(meta.path())),
        None => place_of(attribute.path()),
    }
}

fn place_of(path: &Path) -> Place {
    let last = path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default();
    match last.as_str() {
        "doc" | "cfg" | "allow" | "expect" | "warn" | "deny" | "forbid" | "deprecated" | "must_use" | "path" => {
            Place::Outer
        }
        "debug_handler" => Place::Debug,
        "idempotent" => Place::Ours,
        _ => Place::Inner,
    }
}

/// `App` of `debug_handler(state = App)`, also inside a `cfg_attr`.
pub(crate) fn state_of(debug_handler: &Attribute) -> Option<TokenStream> {
    let tokens = debug_handler.meta.to_token_stream().into_iter();
    let lists = tokens.filter_map(|token| match token {
        TokenTree::Group(list) => Some(list.stream()),
        _ => None,
    });
    let list = lists.last()?;
    match list.clone().into_iter().last() {
        // `cfg_attr(p, debug_handler(…))`
        Some(TokenTree::Group(inside)) if debug_handler.path().is_ident("cfg_attr") => value_of_state(inside.stream()),
        _ => value_of_state(list),
    }
}

fn value_of_state(list: TokenStream) -> Option<TokenStream> {
    let mut tokens = list.into_iter();
    let is_state = matches!(tokens.next(), Some(TokenTree::Ident(word)) if word == "state");
    tokens.next().filter(|_| is_state)?;
    Some(tokens.take_while(|token| !matches!(token, TokenTree::Punct(comma) if comma.as_char() == ',')).collect())
}
