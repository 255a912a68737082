//! Recognizes types by their names: a transaction, an attempt, a pool, a body extractor.
//! rustc reports what an alias hides.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{GenericArgument, Ident, PathArguments, PathSegment, Type, TypeReference, spanned::Spanned as _};

/// Extractors that consume the request body.
const BODIES: &[&str] = &["Body", "Bytes", "Form", "Json", "Multipart", "RawForm", "Request", "String"];

const CONNECTIONS: &[&str] =
    &["AnyConnection", "MySqlConnection", "PgConnection", "PoolConnection", "SqliteConnection", "Transaction"];

/// Connections that idem cannot open a transaction on: unsupported databases, or no transaction.
const UNSUPPORTED: &[&str] = &["AnyConnection", "MySqlConnection", "PoolConnection"];

const POOLS: &[&str] = &["AnyPool", "MySqlPool", "PgPool", "Pool", "SqlitePool"];

const UNSUPPORTED_DATABASES: &[&str] = &["Any", "MySql"];

/// Built-in types that are not extractors.
const PLAIN: &[&str] = &[
    "bool", "char", "f32", "f64", "i128", "i16", "i32", "i64", "i8", "isize", "str", "u128", "u16", "u32", "u64", "u8",
    "usize",
];

pub(crate) fn is_connection(ty: &Type) -> bool {
    last(ty).is_some_and(|segment| CONNECTIONS.iter().any(|name| segment.ident == name))
}

/// Whether the type is called `Attempt`, as the runtime's, with or without a database.
pub(crate) fn is_attempt(ty: &Type) -> bool {
    last(ty).is_some_and(|segment| segment.ident == "Attempt")
}

/// The database of a connection, a pool or an attempt. `None`: unknown or unsupported.
pub(crate) fn database(ty: &Type) -> Option<String> {
    let segment = last(ty)?;
    match segment.ident.to_string().as_str() {
        "PgConnection" | "PgPool" => Some("Postgres".to_owned()),
        "SqliteConnection" | "SqlitePool" => Some("Sqlite".to_owned()),
        "Attempt" | "Pool" | "PoolConnection" | "Transaction" => {
            let name = &last(only_argument(segment)?)?.ident;
            UNSUPPORTED_DATABASES.iter().all(|unsupported| name != unsupported).then(|| name.to_string())
        }
        _ => None,
    }
}

/// `ty` without the group that a `macro_rules!` puts around a type, and without parentheses.
pub(crate) fn bare(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => bare(&group.elem),
        Type::Paren(paren) => bare(&paren.elem),
        other => other,
    }
}

/// `ty` as a reference, if it is one.
pub(crate) fn reference(ty: &Type) -> Option<&TypeReference> {
    match bare(ty) {
        Type::Reference(reference) => Some(reference),
        _ => None,
    }
}

/// `ty` without its `&` or `&mut`.
pub(crate) fn behind(ty: &Type) -> &Type {
    reference(ty).map_or(ty, |reference| &reference.elem)
}

pub(crate) fn is_plain(ty: &Type) -> bool {
    matches!(bare(ty), Type::Path(path) if PLAIN.iter().any(|name| path.path.is_ident(name)))
}

/// The name of a connection or a pool that is known not to be a transaction that idem can open.
pub(crate) fn unsupported(ty: &Type) -> Option<&Ident> {
    let name = &last(ty)?.ident;
    UNSUPPORTED.iter().chain(POOLS).any(|known| name == known).then_some(name)
}

/// The name of a body extractor, also inside an `Option` or a `Result`.
pub(crate) fn body_extractor(ty: &Type) -> Option<&Ident> {
    let segment = last(ty)?;
    if segment.ident == "Option" || segment.ident == "Result" {
        return body_extractor(arguments(segment).next()?);
    }
    BODIES.iter().any(|name| segment.ident == name).then_some(&segment.ident)
}

/// The name in `ty` that makes it an HTTP response.
pub(crate) fn response(ty: &Type) -> Option<Ident> {
    const RESPONSES: &[&str] = &["Html", "IntoResponse", "Redirect", "Response", "StatusCode"];
    find(ty.to_token_stream(), &|ident| RESPONSES.iter().any(|name| ident == name))
}

/// Whether the type is called `Result` and can be written again.
pub(crate) fn is_result(ty: &Type) -> bool {
    impl_trait(ty).is_none() && last(ty).is_some_and(|segment| segment.ident == "Result")
}

/// The name of an extractor that only axum has.
pub(crate) fn of_axum(ty: &Type) -> Option<&Ident> {
    last(ty).map(|segment| &segment.ident).filter(|name| *name == "State" || *name == "Extension")
}

/// The name of a pool, wherever in `ty` it stands.
pub(crate) fn pool(ty: &Type) -> Option<Ident> {
    find(ty.to_token_stream(), &|ident| POOLS.iter().any(|name| ident == name))
}

/// The `impl` of an `impl Trait`, wherever in `ty` it stands.
pub(crate) fn impl_trait(ty: &Type) -> Option<Ident> {
    find(ty.to_token_stream(), &|ident| ident == "impl")
}

/// Whether `ty` has no lifetime but `'static`: then it can be written where there are no parameters.
pub(crate) fn is_owned(ty: &Type) -> bool {
    fn owned(tokens: TokenStream) -> bool {
        let mut tokens = tokens.into_iter().peekable();
        while let Some(token) = tokens.next() {
            let next = tokens.peek();
            let is_owned = match &token {
                TokenTree::Punct(sign) if sign.as_char() == '&' => {
                    matches!(next, Some(TokenTree::Punct(quote)) if quote.as_char() == '\'')
                }
                TokenTree::Punct(sign) if sign.as_char() == '\'' => {
                    matches!(next, Some(TokenTree::Ident(name)) if name == "static")
                }
                TokenTree::Group(group) => owned(group.stream()),
                _ => true,
            };
            if !is_owned {
                return false;
            }
        }
        true
    }
    owned(ty.to_token_stream())
}

fn find(tokens: TokenStream, wanted: &dyn Fn(&Ident) -> bool) -> Option<Ident> {
    tokens.into_iter().find_map(|token| match token {
        TokenTree::Ident(ident) if wanted(&ident) => Some(ident),
        TokenTree::Group(group) => find(group.stream(), wanted),
        _ => None,
    })
}

/// `App` of `State<App>`.
pub(crate) fn state(ty: &Type) -> Option<&Type> {
    last(ty).filter(|segment| segment.ident == "State").and_then(only_argument)
}

/// The only type between the angle brackets.
pub(crate) fn argument(ty: &Type) -> Option<&Type> {
    last(ty).and_then(only_argument)
}

/// Where an error about `ty` has its caret: its name.
pub(crate) fn caret(ty: &Type) -> Span {
    last(ty).map_or_else(|| ty.span(), |segment| segment.ident.span())
}

/// `ty` with the usual spacing.
pub(crate) fn written(ty: &Type) -> String {
    ty.to_token_stream()
        .to_string()
        .replace(" :: ", "::")
        .replace(" < ", "<")
        .replace(" >", ">")
        .replace("& ", "&")
        .replace("'static", "'_")
}

fn last(ty: &Type) -> Option<&PathSegment> {
    match bare(ty) {
        Type::Path(path) => path.path.segments.last(),
        _ => None,
    }
}

fn only_argument(segment: &PathSegment) -> Option<&Type> {
    let mut all = arguments(segment);
    all.next().filter(|_| all.next().is_none())
}

fn arguments(segment: &PathSegment) -> impl Iterator<Item = &Type> {
    let written = match &segment.arguments {
        PathArguments::AngleBracketed(written) => Some(written.args.iter()),
        _ => None,
    };
    written.into_iter().flatten().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}
