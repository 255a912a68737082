//! The annotated function. Its body stays tokens, so that half-typed code is reported once, by rustc.
//! `plan` checks the signature.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use syn::{
    Attribute, FnArg, PatType, Safety, Signature, Token, Visibility,
    ext::IdentExt as _,
    parse::{ParseStream, Parser as _},
};

use super::{
    attributes::Attributes,
    broken::{half_typed, named},
};
use crate::errors::Errors;

/// The item that the attribute annotates.
pub(crate) enum Item {
    Function(Box<Function>),
    /// A function whose signature does not parse, but whose name is known.
    Named {
        vis: TokenStream,
        name: Ident,
    },
    /// Not a function.
    Other(TokenStream),
}

#[derive(Clone)]
pub(crate) struct Function {
    pub(crate) attributes: Attributes,
    pub(crate) vis: Visibility,
    pub(crate) sig: Signature,
    pub(crate) body: Body,
}

#[derive(Clone)]
pub(crate) enum Body {
    Block(Group),
    /// No block, but these tokens in its place.
    Missing(TokenStream),
}

/// Parses the item. If it does not parse, `errors` says why.
pub(crate) fn parse(item: TokenStream, errors: &mut Errors) -> Item {
    let original = item.clone();
    let read = |input: ParseStream<'_>| {
        let attributes = input.call(Attribute::parse_outer)?;
        let vis: Visibility = input.parse()?;
        if !is_function(input) {
            not_a_function(input, errors);
            input.parse::<TokenStream>()?;
            return Ok(Item::Other(original.clone()));
        }
        let sig: Signature = input.parse()?;
        let rest: TokenStream = input.parse()?;
        let attributes = Attributes::sort(&attributes, errors);
        let body = match rest.clone().into_iter().next() {
            Some(TokenTree::Group(block)) => Body::Block(ungrouped(block)),
            _ => Body::Missing(rest),
        };
        Ok(Item::Function(Box::new(Function { attributes, vis, sig, body })))
    };
    match read.parse2(item) {
        Ok(item) => item,
        Err(error) => {
            // rustc has reported half-typed code already.
            if !half_typed(&original) {
                errors.push(error);
            }
            named(original)
        }
    }
}

/// `block` without the group that a `macro_rules!` puts around one.
fn ungrouped(block: Group) -> Group {
    match block.stream().into_iter().next() {
        Some(TokenTree::Group(inside)) if block.delimiter() == Delimiter::None => ungrouped(inside),
        _ => block,
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

fn not_a_function(input: ParseStream<'_>, errors: &mut Errors) {
    match input.cursor().token_tree() {
        Some((TokenTree::Ident(found), _)) => {
            errors.at(found.span(), format!("expected an `async fn`, found `{found}`"));
        }
        Some((token, _)) => errors.at(token.span(), "expected an `async fn`"),
        None => errors.at(Span::call_site(), "expected an `async fn`"),
    }
}

impl Function {
    /// Its name, without `r#`.
    pub(crate) fn name(&self) -> String {
        self.sig.ident.unraw().to_string()
    }

    /// The body, if there is one.
    pub(crate) fn block(&self) -> Option<&Group> {
        match &self.body {
            Body::Block(block) => Some(block),
            Body::Missing(_) => None,
        }
    }

    /// Its parameters without a receiver.
    pub(crate) fn typed(&self) -> impl Iterator<Item = &PatType> {
        self.sig.inputs.iter().filter_map(|argument| match argument {
            FnArg::Typed(typed) => Some(typed),
            FnArg::Receiver(_) => None,
        })
    }

    /// Whether it would compile nested in another function, as a plain `async fn`.
    pub(crate) fn nests(&self) -> bool {
        let sig = &self.sig;
        self.block().is_some()
            && sig.constness.is_none()
            && !matches!(sig.safety, Safety::Unsafe(_))
            && sig.abi.is_none()
            && sig.generics.where_clause.is_none()
            && sig.receiver().is_none()
            && sig.variadic.is_none()
    }
}
