//! A parameter's pattern: the names it binds, and the pattern that reaches one of them through a reference.
//! `mut`, `ref` and the other bindings are left out: a pattern that is matched by reference may not have them.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{FieldPat, Ident, Pat, ext::IdentExt as _, punctuated::Punctuated};

/// Every name that `pattern` binds.
pub(crate) fn names(pattern: &Pat) -> Vec<Ident> {
    let all = |parts: &mut dyn Iterator<Item = &Pat>| parts.flat_map(names).collect();
    match pattern {
        Pat::Ident(binding) => {
            let deeper = binding.subpat.iter().flat_map(|(_, deeper)| names(deeper));
            std::iter::once(binding.ident.clone()).chain(deeper).collect()
        }
        Pat::TupleStruct(parts) => all(&mut parts.elems.iter()),
        Pat::Tuple(parts) => all(&mut parts.elems.iter()),
        Pat::Slice(parts) => all(&mut parts.elems.iter()),
        Pat::Struct(parts) => all(&mut parts.fields.iter().map(|field| &*field.pat)),
        Pat::Or(cases) => cases.cases.first().map(names).unwrap_or_default(),
        Pat::Paren(inside) => names(&inside.pat),
        Pat::Type(inside) => names(&inside.pat),
        Pat::Reference(inside) => names(&inside.pat),
        _ => Vec::new(),
    }
}

/// Whether `pattern` binds `name`.
pub(crate) fn binds(pattern: &Pat, name: &Ident) -> bool {
    names(pattern).iter().any(|bound| bound.unraw() == name.unraw())
}

/// `pattern` reduced to the binding of `name`, renamed to `to`. `None`: `pattern` does not bind it.
pub(crate) fn only(pattern: &Pat, name: &Ident, to: &Ident) -> Option<TokenStream> {
    Some(match pattern {
        Pat::Ident(binding) if binding.ident.unraw() == name.unraw() => quote!(#to),
        Pat::Ident(binding) => only(&binding.subpat.as_ref()?.1, name, to)?,
        Pat::TupleStruct(parts) => {
            let (path, elements) = (&parts.path, only_of(&parts.elems, name, to)?);
            quote!(#path(#elements))
        }
        Pat::Tuple(parts) => {
            let elements = only_of(&parts.elems, name, to)?;
            quote!((#elements))
        }
        Pat::Slice(parts) => {
            let elements = only_of(&parts.elems, name, to)?;
            quote!([#elements])
        }
        Pat::Struct(parts) => {
            let path = &parts.path;
            let fields = parts.fields.iter().map(|field| field_of(field, name, to));
            let rest = parts.rest.iter().map(|rest| &rest.dot2_token);
            binds(pattern, name).then_some(())?;
            quote!(#path { #(#fields,)* #(#rest)* })
        }
        Pat::Or(cases) => {
            let cases = cases.cases.iter().map(|case| only(case, name, to)).collect::<Option<Vec<_>>>()?;
            quote!(#(#cases)|*)
        }
        Pat::Paren(inside) => only(&inside.pat, name, to)?,
        Pat::Type(inside) => only(&inside.pat, name, to)?,
        Pat::Reference(inside) => only(&inside.pat, name, to)?,
        _ => return None,
    })
}

/// The elements, each reduced to the name, to `..`, or to `_`.
fn only_of<P>(elements: &Punctuated<Pat, P>, name: &Ident, to: &Ident) -> Option<TokenStream> {
    let reduced: Vec<_> = elements.iter().map(|element| only(element, name, to)).collect();
    reduced.iter().flatten().next()?;
    let elements = elements.iter().zip(reduced).map(|(element, reduced)| match (element, reduced) {
        (_, Some(reduced)) => reduced,
        (Pat::Rest(rest), None) => quote!(#rest),
        // `rest @ ..` without its name is still a slice's rest.
        (Pat::Ident(binding), None) if matches!(binding.subpat.as_ref().map(|sub| &*sub.1), Some(Pat::Rest(_))) => {
            quote!(..)
        }
        (_, None) => quote!(_),
    });
    Some(quote!(#(#elements,)*))
}

fn field_of(field: &FieldPat, name: &Ident, to: &Ident) -> TokenStream {
    let (attributes, member) = (&field.attrs, &field.member);
    let reduced = only(&field.pat, name, to).unwrap_or_else(|| quote!(_));
    quote!(#(#attributes)* #member: #reduced)
}
