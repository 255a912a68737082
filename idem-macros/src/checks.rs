//! Every check that needs the options and the signature together, each one named function.
//! The caret is on what the user has to change.

use quote::ToTokens as _;
use syn::{PatType, Type, TypeReference};

use crate::{args::Args, errors::Errors, handler::Handler, options::is_operation, plan::operation, types};

/// What axum's tuples of extractors go up to.
const MOST_EXTRACTORS: usize = 16;

pub(crate) fn one_transaction(
    handler: &Handler,
    transactions: &[(&PatType, &TypeReference)],
    extractors: &[&PatType],
    errors: &mut Errors,
) {
    if let [_, others @ ..] = transactions {
        for (_, second) in others {
            errors.on(second, "a handler has one transaction: leave this `&mut` parameter out");
        }
    }
    for (_, reference) in transactions {
        if let Some(lifetime) = reference.lifetime.as_ref().filter(|_| handler.sig.generics.lt_token.is_none()) {
            errors.on(lifetime, "the transaction is lent for one call: leave the lifetime out");
        }
    }
    if let [(_, only)] = transactions
        && let Some(name) = types::unsupported(&only.elem)
    {
        errors.on(
            only,
            format!(
                "`{name}` is not a transaction that idem can open: write `&mut PgConnection`, \
                 `&mut SqliteConnection` or `&mut Transaction<'_, Db>`"
            ),
        );
    }
    let mistaken = extractors.iter().any(|extractor| is_mistaken_transaction(&extractor.ty));
    if transactions.is_empty() && !mistaken && handler.sig.receiver().is_none() {
        errors.at(
            handler.sig.paren_token.span.join(),
            "a handler takes the open transaction: add `tx: &mut PgConnection` or `tx: &mut SqliteConnection`, \
             and write through it",
        );
    }
}

/// A transaction, but by value or by a shared reference.
fn is_mistaken_transaction(ty: &Type) -> bool {
    match ty {
        Type::Reference(reference) => types::is_connection(&reference.elem),
        other => types::is_connection(other),
    }
}

/// Parameters whose type no request can give.
pub(crate) fn no_values(extractors: &[&PatType], errors: &mut Errors) {
    for ty in extractors.iter().map(|extractor| &*extractor.ty) {
        let written = || {
            ty.to_token_stream()
                .to_string()
                .replace(" :: ", "::")
                .replace(" < ", "<")
                .replace(" >", ">")
                .replace("& ", "&")
                .replace("'static", "'_")
        };
        if types::is_connection(ty) {
            errors.on(ty, format!("the transaction is lent, not given: write `&mut {}`", written()));
        } else if is_mistaken_transaction(ty) {
            errors.on(
                ty,
                format!("the transaction is lent to write through: write `{}`", written().replacen('&', "&mut ", 1)),
            );
        } else if let Type::Reference(reference) = ty {
            errors.on(reference, "extractors are owned: leave the `&` out");
        } else if types::is_plain(ty) {
            errors.on(ty, format!("`{0}` is not an extractor: write one around it, such as `Path<{0}>`", written()));
        } else if let Some(word) = types::impl_trait(ty) {
            errors.at(word.span(), "a handler cannot be generic: write the type in place of `impl …`");
        }
    }
}

pub(crate) fn at_most_sixteen(extractors: &[&PatType], errors: &mut Errors) {
    if let Some(extra) = extractors.get(MOST_EXTRACTORS) {
        errors.on(
            &extra.ty,
            "a handler takes at most 16 extractors beside the transaction: join some in a tuple, \
             `(a, b): (A, B)`",
        );
    }
}

pub(crate) fn body_last(extractors: &[&PatType], errors: &mut Errors) {
    if let [earlier @ .., _] = extractors {
        for extractor in earlier {
            if let Some(name) = types::body_extractor(&extractor.ty) {
                errors.on(
                    &extractor.ty,
                    format!("`{name}` reads the request's body, so nothing can be extracted after it: make it the last parameter"),
                );
            }
        }
    }
}

pub(crate) fn no_pool(args: &Args, extractors: &[&PatType], errors: &mut Errors) {
    if args.pool_allowed {
        return;
    }
    for extractor in extractors {
        if let Some(pool) = types::pool(&extractor.ty) {
            errors.on(
                &extractor.ty,
                format!(
                    "what is written through `{pool}` is outside the transaction, so a retry would write it again: \
                     write through the `&mut` parameter, or add `allow(pool)` where the pool only reads"
                ),
            );
        }
    }
}

pub(crate) fn retention_long_enough(args: &Args, errors: &mut Errors) {
    if let Some(retention) = args.retention.as_ref().filter(|retention| retention.seconds < 86_400)
        && !args.short_retention_allowed
    {
        errors.at(
            retention.span,
            "a retry that comes after a `retention` under 24 hours runs again: \
             write `retention = \"24h\"` or longer, or add `allow(short_retention)`",
        );
    }
}

/// The stored name of a handler is the function's own, unless it is given.
pub(crate) fn name_can_be_stored(args: &Args, handler: &Handler, errors: &mut Errors) {
    if !is_operation(&operation(args, handler)) {
        errors.on(
            &handler.sig.ident,
            "the name is stored as 1 to 128 visible ASCII characters, which this is not: add `operation = \"…\"`",
        );
    }
}
