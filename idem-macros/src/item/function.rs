//! The annotated item: its attributes sorted by where they belong, visibility, signature and body.
//! The body stays tokens, so half-typed code is reported once, by rustc.

use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::{
    Attribute, Meta, Path, Safety, Signature, Token, Visibility,
    parse::{ParseStream, Parser as _},
    punctuated::Punctuated,
};

use crate::{errors::Errors, plan::kind::Kind};

/// What the attribute was put on.
pub(crate) enum Item {
    Handler(Box<Handler>),
    /// A function whose signature cannot be read; its name can.
    Named {
        vis: TokenStream,
        name: Ident,
    },
    /// No function.
    Other(TokenStream),
}

/// A function, and which attribute belongs where.
#[derive(Clone)]
pub(crate) struct Handler {
    /// Attributes that describe the item as others see it: documentation, `cfg`, lints, `utoipa::path`.
    pub(crate) outer: Vec<Attribute>,
    /// Attributes that rewrite the function and name its parameters, such as `instrument`.
    pub(crate) inner: Vec<Attribute>,
    /// axum's `debug_handler`, which wants a handler's signature.
    pub(crate) debug: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) sig: Signature,
    pub(crate) body: Option<Group>,
    /// Whether the function would compile nested in another, as a plain `async fn`.
    pub(crate) nests: bool,
}

enum Place {
    Outer,
    Inner,
    Debug,
    Ours,
}

/// Reads the item; what is wrong with it as a function goes to `errors`.
pub(crate) fn parse(item: TokenStream, kind: Kind, errors: &mut Errors) -> Item {
    let whole = item.clone();
    let read = |input: ParseStream<'_>| {
        let attributes = input.call(Attribute::parse_outer)?;
        let vis: Visibility = input.parse()?;
        if !is_function(input) {
            let span = input.cursor().token_tree().map_or_else(Span::call_site, |(token, _)| token.span());
            input.parse::<TokenStream>()?;
            errors.at(span, "`#[idempotent]` goes on an `async fn`");
            return Ok(Item::Other(whole.clone()));
        }
        let sig: Signature = input.parse()?;
        let rest: TokenStream = input.parse()?;
        Ok(Item::Handler(Box::new(handler(attributes, vis, sig, rest, kind, errors))))
    };
    match read.parse2(item) {
        Ok(item) => item,
        Err(error) => {
            // What rustc has reported already is not reported again.
            if !half_typed(&whole) {
                errors.push(error);
            }
            named(whole)
        }
    }
}

fn is_function(input: ParseStream<'_>) -> bool {
    let ahead = input.fork();
    let qualifiers = (|| {
        ahead.parse::<Option<Token![const]>>()?;
        ahead.parse::<Option<Token![async]>>()?;
        ahead.parse::<Option<Token![unsafe]>>()?;
        ahead.parse::<Option<syn::Abi>>()
    })();
    qualifiers.is_ok() && ahead.peek(Token![fn])
}

fn handler(
    attributes: Vec<Attribute>,
    vis: Visibility,
    sig: Signature,
    rest: TokenStream,
    kind: Kind,
    errors: &mut Errors,
) -> Handler {
    let (mut outer, mut inner, mut debug) = (Vec::new(), Vec::new(), Vec::new());
    for attribute in attributes.into_iter().flat_map(singly) {
        match place(&attribute) {
            Place::Outer => outer.push(attribute),
            Place::Inner => inner.push(attribute),
            Place::Debug => debug.push(attribute),
            Place::Ours => errors.on(&attribute, "`#[idempotent]` is given twice, keep one of them"),
        }
    }
    let body = if let Some(TokenTree::Group(body)) = rest.clone().into_iter().next() {
        Some(body)
    } else {
        errors.on(or_name(rest, &sig), format!("a {} needs a body in braces", kind.noun()));
        None
    };
    let nests = check(&sig, kind, errors) && body.is_some();
    Handler { outer, inner, debug, vis, sig, body, nests }
}

fn or_name(rest: TokenStream, sig: &Signature) -> TokenStream {
    if rest.is_empty() { sig.ident.to_token_stream() } else { rest }
}

/// What a handler's signature may not have. Says whether the function can be nested all the same.
fn check(sig: &Signature, kind: Kind, errors: &mut Errors) -> bool {
    let noun = kind.noun();
    let mut nests = true;
    if let Some(token) = &sig.constness {
        errors.on(token, format!("a {noun} cannot be `const`, leave it out"));
        nests = false;
    }
    if let Safety::Unsafe(token) = &sig.safety {
        errors.on(token, format!("a {noun} cannot be `unsafe`, leave it out"));
        nests = false;
    }
    if let Some(token) = &sig.abi {
        errors.on(token, format!("a {noun} cannot be `extern`, leave it out"));
        nests = false;
    }
    if sig.asyncness.is_none() && sig.constness.is_none() {
        errors.on(sig.fn_token, format!("a {noun} is asynchronous: write `async fn`"));
    }
    if sig.generics.lt_token.is_some() {
        errors.on(&sig.generics, format!("a {noun} cannot be generic: write the types it is used with"));
    }
    if let Some(clause) = &sig.generics.where_clause {
        errors.on(clause, format!("a {noun} cannot have a `where` clause: write the types it is used with"));
        nests = false;
    }
    if let Some(receiver) = sig.receiver() {
        let by = match kind {
            Kind::Requests | Kind::Events => "by an extractor such as `State<…>`",
            Kind::Messages => "as parameters",
        };
        errors.on(receiver, format!("a {noun} is a free function: take what it needs {by}"));
        nests = false;
    }
    if let Some(dots) = &sig.variadic {
        errors.on(dots, format!("a {noun} cannot be variadic, leave the dots out"));
        nests = false;
    }
    nests
}

/// `#[cfg_attr(p, a, b)]` as `#[cfg_attr(p, a)] #[cfg_attr(p, b)]`: each may belong elsewhere.
fn singly(attribute: Attribute) -> Vec<Attribute> {
    match conditional(&attribute) {
        Some((predicate, metas)) if metas.len() > 1 => metas
            .into_iter()
            .map(|meta| {
                let mut one = attribute.clone();
                if let Meta::List(list) = &mut one.meta {
                    list.tokens = quote!(#predicate, #meta);
                }
                one
            })
            .collect(),
        _ => vec![attribute],
    }
}

/// The predicate and the attributes of a `cfg_attr`.
fn conditional(attribute: &Attribute) -> Option<(Meta, Vec<Meta>)> {
    if !attribute.path().is_ident("cfg_attr") {
        return None;
    }
    let all = attribute.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).ok()?;
    let mut all = all.into_iter();
    Some((all.next()?, all.collect()))
}

fn place(attribute: &Attribute) -> Place {
    match conditional(attribute) {
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

/// Whether the list of parameters has one without a type, which rustc does not let pass.
fn half_typed(item: &TokenStream) -> bool {
    let tokens: Vec<_> = item.clone().into_iter().collect();
    let parameters = tokens.windows(3).find_map(|three| match three {
        [TokenTree::Ident(keyword), TokenTree::Ident(_), TokenTree::Group(list)] if keyword == "fn" => {
            Some(list.stream())
        }
        _ => None,
    });
    let tokens: Vec<_> = parameters.into_iter().flatten().collect();
    let is = |token: &TokenTree, sign: char| matches!(token, TokenTree::Punct(punct) if punct.as_char() == sign);
    let (mut depth, mut arrow) = (0_usize, false);
    let between = |token: &TokenTree| {
        depth = match token {
            _ if is(token, '<') => depth + 1,
            _ if is(token, '>') && !arrow => depth.saturating_sub(1),
            _ => depth,
        };
        arrow = is(token, '-');
        depth == 0 && is(token, ',')
    };
    tokens.split(between).any(|parameter| {
        let colon = parameter.iter().position(|token| is(token, ':'));
        !parameter.is_empty() && colon.is_none_or(|colon| colon + 1 == parameter.len())
    })
}

/// The visibility and name of a function that cannot be read further.
fn named(item: TokenStream) -> Item {
    let tokens: Vec<_> = item.clone().into_iter().collect();
    let is = |token: &TokenTree, word: &str| matches!(token, TokenTree::Ident(ident) if ident == word);
    let name = tokens.windows(2).find_map(|pair| match pair {
        [keyword, TokenTree::Ident(name)] if is(keyword, "fn") => Some(name.clone()),
        _ => None,
    });
    let vis = tokens.iter().skip_while(|token| !is(token, "pub")).take_while(|token| {
        is(token, "pub")
            || matches!(token, TokenTree::Group(group) if group.delimiter() == proc_macro2::Delimiter::Parenthesis)
    });
    match name {
        Some(name) => Item::Named { vis: vis.cloned().collect(), name },
        None => Item::Other(item),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_without_a_type_is_half_typed() {
        for parameters in ["account", "tx: &mut T, account", "a: A, b:", "a, b: B<C, D>"] {
            assert!(half_typed(&format!("async fn pay({parameters}) {{}}").parse().unwrap()), "{parameters}");
        }
    }

    #[test]
    fn what_has_its_types_is_not() {
        for parameters in
            ["", "a: A", "a: A,", "a: A<B, C, D>, e: E", "a: A<fn(B) -> C, D>", "(a, b): (A, B)", "a: a::A"]
        {
            assert!(!half_typed(&format!("async fn pay({parameters}) {{}}").parse().unwrap()), "{parameters}");
        }
    }
}
