//! An item that does not parse: its name and visibility, and whether rustc reports it anyway.
//! Works on tokens only.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::function::Item;

/// Whether a parameter has no type. rustc reports that itself.
pub(super) fn half_typed(item: &TokenStream) -> bool {
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

/// The visibility and name of a function, or the item if it has no name.
pub(super) fn named(item: TokenStream) -> Item {
    let tokens: Vec<_> = item.clone().into_iter().collect();
    let is = |token: &TokenTree, word: &str| matches!(token, TokenTree::Ident(ident) if ident == word);
    let name = tokens.windows(2).find_map(|pair| match pair {
        [keyword, TokenTree::Ident(name)] if is(keyword, "fn") => Some(name.clone()),
        _ => None,
    });
    let vis = tokens.iter().skip_while(|token| !is(token, "pub")).take_while(|token| {
        is(token, "pub") || matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis)
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
    fn a_parameter_with_a_type_is_not() {
        for parameters in
            ["", "a: A", "a: A,", "a: A<B, C, D>, e: E", "a: A<fn(B) -> C, D>", "(a, b): (A, B)", "a: a::A"]
        {
            assert!(!half_typed(&format!("async fn pay({parameters}) {{}}").parse().unwrap()), "{parameters}");
        }
    }
}
