//! Every check that needs the options and the signature together, each one named function.
//! The caret is on what the user has to change.

use syn::Type;

use crate::{
    args::{Args, Effects, Setting, Value},
    errors::Errors,
    handler::Handler,
    options::is_operation,
    parameters::{Parameters, attempt_for, transaction_for, written},
    plan::operation,
    types,
};

/// What axum's tuples of extractors go up to.
const MOST_EXTRACTORS: usize = 16;

const LEAVE_OUT: &str = "leave this parameter out";

pub(crate) fn one_lent(handler: &Handler, parameters: &Parameters<'_>, errors: &mut Errors) {
    let lent = parameters.effects.lent();
    for second in parameters.fitting().skip(1) {
        errors.on(second.reference, format!("a handler has one {lent}: leave this `&mut` parameter out"));
    }
    for reference in parameters.fitting().map(|lent| lent.reference) {
        if let Some(lifetime) = reference.lifetime.as_ref().filter(|_| handler.sig.generics.lt_token.is_none()) {
            errors.on(lifetime, format!("the {lent} is lent for one call: leave the lifetime out"));
        }
    }
}

pub(crate) fn something_lent(handler: &Handler, parameters: &Parameters<'_>, errors: &mut Errors) {
    let mistaken = parameters.extractors.iter().any(|extractor| parameters.is_mistaken(&extractor.ty))
        || parameters.of_other_effects().next().is_some();
    if parameters.lent.is_empty() && !mistaken && handler.sig.receiver().is_none() {
        let add = match parameters.effects {
            Effects::Database => {
                "a handler takes the open transaction: add `tx: &mut PgConnection` or `tx: &mut SqliteConnection`, \
                 and write through it"
            }
            Effects::External => {
                "a handler with external effects takes its attempt: add `attempt: &mut Attempt<Postgres>` or \
                 `attempt: &mut Attempt<Sqlite>`, and give the other system the key of `attempt.key(\"…\")`"
            }
        };
        errors.at(handler.sig.paren_token.span.join(), add);
    }
}

/// The one connection is of a database that is served, and can be in a transaction.
pub(crate) fn connection_served(parameters: &Parameters<'_>, errors: &mut Errors) {
    if let (Effects::Database, [only]) = (parameters.effects, parameters.lent.as_slice())
        && let Some(name) = types::unsupported(&only.reference.elem)
    {
        errors.on(
            only.reference,
            format!(
                "`{name}` is not a transaction that idem can open: write `&mut PgConnection`, \
                 `&mut SqliteConnection` or `&mut Transaction<'_, Db>`"
            ),
        );
    }
}

pub(crate) fn no_attempt_with_database(parameters: &Parameters<'_>, errors: &mut Errors) {
    if parameters.effects != Effects::Database {
        return;
    }
    for (ty, too_many) in parameters.of_other_effects() {
        let or = if too_many { LEAVE_OUT.to_owned() } else { format!("take {}", transaction_for(types::behind(ty))) };
        errors.on(ty, format!("an attempt is for effects elsewhere: write `effects = external`, or {or}"));
    }
}

pub(crate) fn no_transaction_with_external(parameters: &Parameters<'_>, errors: &mut Errors) {
    if parameters.effects != Effects::External {
        return;
    }
    for (ty, too_many) in parameters.of_other_effects() {
        let behind = types::behind(ty);
        let instead = if too_many { LEAVE_OUT.to_owned() } else { format!("take {}", attempt_for(behind)) };
        let why = match types::unsupported(behind) {
            Some(name) => format!("`{name}` is not an attempt"),
            None => {
                "an open transaction would be held while the other system is called, and would not contain that call"
                    .to_owned()
            }
        };
        errors.on(ty, format!("{why}: {instead}, and write local rows through `attempt.transaction()`"));
    }
}

/// Parameters whose type no request can give.
pub(crate) fn no_values(parameters: &Parameters<'_>, errors: &mut Errors) {
    let given = parameters.extractors.iter().map(|extractor| &*extractor.ty);
    for ty in given.filter(|ty| !parameters.is_of_other_effects(ty)) {
        if parameters.is_mistaken(ty) {
            errors.on(ty, not_given(ty, parameters));
        } else if let Type::Reference(reference) = ty {
            errors.on(reference, "extractors are owned: leave the `&` out");
        } else if types::is_plain(ty) {
            errors.on(ty, format!("`{0}` is not an extractor: write one around it, such as `Path<{0}>`", written(ty)));
        } else if let Some(word) = types::impl_trait(ty) {
            errors.at(word.span(), "a handler cannot be generic: write the type in place of `impl …`");
        }
    }
}

/// How to take what was taken by value or by a shared reference.
fn not_given(ty: &Type, parameters: &Parameters<'_>) -> String {
    let lent = parameters.effects.lent();
    if parameters.fitting().next().is_some() {
        return format!("a handler has one {lent}: {LEAVE_OUT}");
    }
    let behind = types::behind(ty);
    let take = match types::argument(behind) {
        None if parameters.effects == Effects::External => attempt_for(behind),
        _ => format!("`&mut {}`", written(behind)),
    };
    match ty {
        Type::Reference(_) => format!("the {lent} is lent to write through: write {take}"),
        _ => format!("the {lent} is lent, not given: write {take}"),
    }
}

pub(crate) fn at_most_sixteen(parameters: &Parameters<'_>, errors: &mut Errors) {
    if let Some(extra) = parameters.extractors.get(MOST_EXTRACTORS) {
        errors.on(
            &extra.ty,
            format!(
                "a handler takes at most 16 extractors beside the {}: join some in a tuple, `(a, b): (A, B)`",
                parameters.effects.lent()
            ),
        );
    }
}

pub(crate) fn body_last(parameters: &Parameters<'_>, errors: &mut Errors) {
    if let [earlier @ .., _] = parameters.extractors.as_slice() {
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

pub(crate) fn no_pool(args: &Args, parameters: &Parameters<'_>, errors: &mut Errors) {
    if args.pool_allowed {
        return;
    }
    let through = match parameters.effects {
        Effects::Database => "the `&mut` parameter",
        Effects::External => "`attempt.transaction()`",
    };
    for extractor in &parameters.extractors {
        if let Some(pool) = types::pool(&extractor.ty) {
            errors.on(
                &extractor.ty,
                format!(
                    "what is written through `{pool}` is outside the transaction, so a retry would write it again: \
                     write through {through}, or add `allow(pool)` where the pool only reads"
                ),
            );
        }
    }
}

pub(crate) fn options_of_external(args: &Args, errors: &mut Errors) {
    if args.effects != Some(Effects::Database) {
        return;
    }
    for Setting { option, span, .. } in
        args.settings.iter().filter(|set| ["lease", "store_request"].contains(&set.option))
    {
        errors.at(
            *span,
            format!("`{option}` is for effects elsewhere: write `effects = external`, or leave `{option}` out"),
        );
    }
}

pub(crate) fn server_error_fits(args: &Args, errors: &mut Errors) {
    for setting in args.settings.iter().filter(|set| set.option == "on_server_error") {
        let Value::Variant { variant, .. } = setting.value else { continue };
        let message = match (args.effects, variant) {
            (Some(Effects::Database), "Reconcile") => {
                "the effects are rolled back with the transaction, so there is nothing to reconcile: write \
                 `on_server_error = release` or `on_server_error = store`, or `effects = external` if some live elsewhere"
            }
            (Some(Effects::External), "Release") => {
                "the effect may have happened before the error, so the key must not be free: write \
                 `on_server_error = reconcile` or `on_server_error = store`"
            }
            _ => continue,
        };
        errors.at(setting.span, message);
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
