//! `Args` and `Handler` together: every check that needs both, each one named function, then the `Plan`.
//! After this nothing can be wrong that tokens can tell.

use proc_macro2::{Group, Ident, Span, TokenStream};
use quote::{ToTokens as _, format_ident};
use syn::{Attribute, FnArg, Pat, PatType, Path, ReturnType, Type, TypeReference, Visibility, ext::IdentExt as _};

use crate::{
    args::{Args, ScopeArg, Setting},
    errors::{Errors, hint, listed},
    handler::Handler,
    patterns, types,
};

/// What axum's tuples of extractors go up to.
const MOST_EXTRACTORS: usize = 16;

/// All that the expansion needs, decided.
pub(crate) struct Plan<'p> {
    pub(crate) krate: Option<&'p Path>,
    pub(crate) handler: &'p Handler,
    pub(crate) vis: &'p Visibility,
    pub(crate) body: &'p Group,
    pub(crate) operation: String,
    pub(crate) and_endpoint: bool,
    pub(crate) retention: Option<u64>,
    pub(crate) settings: &'p [Setting],
    /// The type behind the one `&mut`.
    pub(crate) connection: &'p Type,
    /// The parameters in the user's order.
    pub(crate) parameters: Vec<Parameter<'p>>,
    pub(crate) scope: Scope,
    pub(crate) returns: Returns<'p>,
    pub(crate) twin: Option<Twin<'p>>,
}

pub(crate) enum Parameter<'p> {
    Transaction,
    Extractor { ty: &'p Type, name: Ident },
}

/// The way from the extracted arguments to the scope.
pub(crate) struct Scope {
    /// For each extractor, its part of the pattern.
    pub(crate) patterns: Vec<Option<TokenStream>>,
    pub(crate) binding: Ident,
}

/// What the handler returns, and whether the type can be named again.
pub(crate) enum Returns<'p> {
    Nothing,
    Named(&'p Type),
    /// With `impl Trait` in it, which may not stand in a turbofish.
    Opaque(&'p Type),
}

/// The handler as axum's `debug_handler` can check it.
pub(crate) struct Twin<'p> {
    pub(crate) attributes: &'p [Attribute],
    /// Where a state without `Idempotency` is reported, where the state is known.
    pub(crate) state: Option<Span>,
}

/// The plan, or `None` where `errors` says why not.
pub(crate) fn plan<'p>(args: &'p Args, handler: &'p Handler, errors: &mut Errors) -> Option<Plan<'p>> {
    let transactions: Vec<_> =
        typed(handler).filter_map(|typed| transaction(typed).map(|found| (typed, found))).collect();
    let extractors: Vec<_> = typed(handler).filter(|typed| transaction(typed).is_none()).collect();

    one_transaction(handler, &transactions, &extractors, errors);
    no_values(&extractors, errors);
    at_most_sixteen(&extractors, errors);
    body_last(&extractors, errors);
    no_pool(args, &extractors, errors);
    retention_long_enough(args, errors);
    let scope = args.scope.as_ref().and_then(|wanted| scope(wanted, &transactions, &extractors, errors));

    let (_, connection) = transactions.first()?;
    Some(Plan {
        krate: args.krate.as_ref(),
        handler,
        vis: &handler.vis,
        body: handler.body.as_ref()?,
        operation: args.operation.clone().unwrap_or_else(|| handler.sig.ident.unraw().to_string()),
        and_endpoint: args.scope.as_ref()?.and_endpoint,
        retention: args.retention.as_ref().map(|retention| retention.seconds),
        settings: &args.settings,
        connection: &connection.elem,
        parameters: parameters(handler),
        scope: scope?,
        returns: returns(&handler.sig.output),
        twin: twin(handler, &extractors),
    })
}

fn typed(handler: &Handler) -> impl Iterator<Item = &PatType> {
    handler.sig.inputs.iter().filter_map(|argument| match argument {
        FnArg::Typed(typed) => Some(typed),
        FnArg::Receiver(_) => None,
    })
}

/// No extractor is `&mut`: whatever is, is the transaction.
fn transaction(typed: &PatType) -> Option<&TypeReference> {
    match &*typed.ty {
        Type::Reference(reference) if reference.mutability.is_some() => Some(reference),
        _ => None,
    }
}

fn parameters(handler: &Handler) -> Vec<Parameter<'_>> {
    let name = |index| format_ident!("argument_{index}", span = Span::mixed_site());
    typed(handler)
        .enumerate()
        .map(|(index, typed)| match transaction(typed) {
            Some(_) => Parameter::Transaction,
            None => Parameter::Extractor { ty: &typed.ty, name: name(index) },
        })
        .collect()
}

fn one_transaction(
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
        if let Some(lifetime) = &reference.lifetime {
            errors.on(lifetime, "the transaction is lent for one call: leave the lifetime out");
        }
    }
    let mistaken = extractors.iter().any(|extractor| is_mistaken_transaction(&extractor.ty));
    if transactions.is_empty() && !mistaken && handler.sig.receiver().is_none() {
        errors.at(
            handler.sig.paren_token.span.join(),
            "a handler takes the open transaction: add a parameter such as `tx: &mut PgConnection`, \
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
fn no_values(extractors: &[&PatType], errors: &mut Errors) {
    for ty in extractors.iter().map(|extractor| &*extractor.ty) {
        let written = || ty.to_token_stream().to_string().replace(" < ", "<").replace(" >", ">").replace("& ", "&");
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

fn at_most_sixteen(extractors: &[&PatType], errors: &mut Errors) {
    if let Some(extra) = extractors.get(MOST_EXTRACTORS) {
        errors.on(
            &extra.ty,
            "a handler takes at most 16 extractors beside the transaction: join some in a tuple, \
             `(a, b): (A, B)`",
        );
    }
}

fn body_last(extractors: &[&PatType], errors: &mut Errors) {
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

fn no_pool(args: &Args, extractors: &[&PatType], errors: &mut Errors) {
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

fn retention_long_enough(args: &Args, errors: &mut Errors) {
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

/// Finds the parameter that `scope` names.
fn scope(
    wanted: &ScopeArg,
    transactions: &[(&PatType, &TypeReference)],
    extractors: &[&PatType],
    errors: &mut Errors,
) -> Option<Scope> {
    let name = &wanted.parameter;
    let binds = |typed: &PatType| patterns::names(&typed.pat).iter().any(|bound| bound.unraw() == name.unraw());
    if transactions.iter().any(|(typed, _)| binds(typed)) {
        errors.on(name, format!("`{name}` is the transaction: `scope` names the parameter that identifies the caller"));
        return None;
    }
    let Some(owner) = extractors.iter().find(|typed| binds(typed)) else {
        let names: Vec<_> =
            extractors.iter().flat_map(|typed| patterns::names(&typed.pat)).map(|name| name.to_string()).collect();
        let known = match names.as_slice() {
            [] => {
                "the handler has no parameter beside the transaction: add the one that identifies the caller".to_owned()
            }
            names => format!("`scope` names one of {}", listed(names)),
        };
        let message = format!("no parameter is called `{name}`{}", hint(&name.to_string(), &names));
        errors.on(
            name,
            if message.ends_with('?') { format!("{message} {known}") } else { format!("{message}: {known}") },
        );
        return None;
    };
    let binding = Ident::new("whose", Span::mixed_site().located_at(scope_caret(owner)));
    let patterns = extractors.iter().map(|typed| patterns::only(&typed.pat, name, &binding)).collect();
    Some(Scope { patterns, binding })
}

/// The type that has to be a `Scope`, as far as the tokens tell: `Account` in `Extension(account): Extension<Account>`.
fn scope_caret(owner: &PatType) -> Span {
    match &*owner.pat {
        Pat::TupleStruct(parts) if parts.elems.len() == 1 => {
            types::caret(types::argument(&owner.ty).unwrap_or(&owner.ty))
        }
        _ => types::caret(&owner.ty),
    }
}

fn returns(output: &ReturnType) -> Returns<'_> {
    match output {
        ReturnType::Default => Returns::Nothing,
        ReturnType::Type(_, ty) if types::impl_trait(ty).is_some() => Returns::Opaque(ty),
        ReturnType::Type(_, ty) => Returns::Named(ty),
    }
}

fn twin<'p>(handler: &'p Handler, extractors: &[&PatType]) -> Option<Twin<'p>> {
    let attributes = handler.debug.as_slice();
    let first = attributes.first()?;
    let named = first.meta.to_token_stream().into_iter().nth(1).is_some();
    let mut states = extractors.iter().filter_map(|typed| types::state(&typed.ty)).map(types::caret);
    let state = match (states.next(), states.next()) {
        (Some(state), None) => Some(state),
        (Some(state), Some(_)) if named => Some(state),
        (None, _) if named => Some(handler.sig.ident.span()),
        _ => None,
    };
    // axum counts it as an extractor like the others.
    Some(Twin { attributes, state: state.filter(|_| extractors.len() < MOST_EXTRACTORS) })
}
