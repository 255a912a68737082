//! Every check that needs the options and the signature together, each one named function.
//! The caret is on what the user has to change.

use syn::{ReturnType, Type, spanned::Spanned as _};

use crate::{
    errors::Errors,
    item::function::Handler,
    item::parameters::{Lent, Parameters, attempt_for, transaction_for, written},
    item::types,
    options::args::{Args, Effects, Setting, Value},
    options::values::is_operation,
    plan::kind::Kind,
    plan::operation,
};

/// What axum's tuples of extractors go up to.
const MOST_EXTRACTORS: usize = 16;

const LEAVE_OUT: &str = "leave this parameter out";

/// Options that say something of another kind of function only.
pub(crate) fn options_of_this_kind(args: &Args, kind: Option<Kind>, errors: &mut Errors) {
    let Some(kind) = kind else { return };
    for (option, span) in &args.given {
        if let Some(instead) = kind.misplaced(option) {
            errors.at(*span, instead);
        }
    }
    if let Some(scope) = args.scope.as_ref().filter(|scope| scope.and_endpoint && kind != Kind::Requests) {
        let message = match kind {
            Kind::Messages => "a consumer is called at no endpoint: write the parameter alone, as in `scope = source`",
            Kind::Requests | Kind::Events => {
                "an event's key belongs to its handler already: write the parameter alone, as in `scope = provider`"
            }
        };
        errors.on(&scope.parameter, message);
    }
}

pub(crate) fn one_lent(handler: &Handler, parameters: &Parameters<'_>, errors: &mut Errors) {
    let (lent, noun) = (parameters.effects.lent(), parameters.kind.noun());
    let named = |lent: &&Lent<'_>| types::is_connection(&lent.reference.elem);
    let first = parameters.fitting().find(named).or_else(|| parameters.fitting().next());
    let first = first.map(|lent| lent.reference);
    for second in parameters.fitting().filter(|lent| !first.is_some_and(|first| std::ptr::eq(first, lent.reference))) {
        let message = if parameters.kind == Kind::Messages && !named(&second) {
            "a consumer changes nothing but the database, by its transaction: take this by value or by a shared reference"
                .to_owned()
        } else {
            format!("a {noun} has one {lent}: leave this `&mut` parameter out")
        };
        errors.on(second.reference, message);
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
            Effects::Database => format!(
                "a {} takes the open transaction: add `tx: &mut PgConnection` or `tx: &mut SqliteConnection`, and write \
                 through it",
                parameters.kind.noun()
            ),
            Effects::External => {
                "a handler with external effects takes its attempt: add `attempt: &mut Attempt<Postgres>` or \
                 `attempt: &mut Attempt<Sqlite>`, and give the other system the key of `attempt.key(\"…\")`"
                    .to_owned()
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
        let message = match parameters.kind {
            Kind::Messages => format!("an attempt is for handlers with external effects: {or}"),
            Kind::Requests | Kind::Events => {
                format!("an attempt is for effects elsewhere: write `effects = external`, or {or}")
            }
        };
        errors.on(ty, message);
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

/// A consumer is called by the user's own code, with whatever that has.
pub(crate) fn nothing_of_axum(handler: &Handler, parameters: &Parameters<'_>, errors: &mut Errors) {
    let given = parameters.extractors.iter().map(|given| &*given.ty);
    for ty in given.filter(|ty| !parameters.is_of_other_effects(ty)) {
        if parameters.is_mistaken(ty) {
            errors.on(ty, not_given(ty, parameters));
        } else if let Some(name) = types::of_axum(ty) {
            errors.on(
                ty,
                format!(
                    "`{name}` is axum's, and a consumer is called by code of yours: add `webhook` to handle events"
                ),
            );
        } else if let Some(word) = types::impl_trait(ty) {
            errors.at(word.span(), "a consumer cannot be generic: write the type in place of `impl …`");
        }
    }
    if let Some(attribute) = handler.debug.first() {
        errors.on(attribute, "`debug_handler` checks handlers, and a consumer is none: leave it out");
    }
}

/// What a consumer returns is stored, and told from a failure.
pub(crate) fn value_can_be_stored(handler: &Handler, errors: &mut Errors) {
    let returns = "a consumer returns `Result<T, E>`, where `T` is stored and `E` rolls back";
    match &handler.sig.output {
        ReturnType::Default => {
            let end = handler.sig.paren_token.span.close();
            errors.at(end, format!("{returns}: add `-> Result<(), sqlx::Error>` (a handler of events says `webhook`)"));
        }
        ReturnType::Type(_, ty) => {
            if let Some(answer) = types::answer(ty) {
                let message = format!(
                    "`{answer}` is a handler's answer, and this is a consumer, whose key is not in a header: add `webhook` to \
                     handle events"
                );
                errors.at(answer.span(), message);
            } else if let Some(word) = types::impl_trait(ty) {
                errors.at(word.span(), "what a consumer returns is stored: write its type in place of `impl …`");
            } else if types::is_plain(ty) || matches!(&**ty, Type::Tuple(_) | Type::Array(_) | Type::Reference(_)) {
                let written = written(ty);
                errors.at(
                    ty.span(),
                    format!("{returns}: write `Result<{written}, sqlx::Error>` (a handler of events says `webhook`)"),
                );
            }
        }
    }
}

/// How to take what was taken by value or by a shared reference.
fn not_given(ty: &Type, parameters: &Parameters<'_>) -> String {
    let lent = parameters.effects.lent();
    if parameters.fitting().next().is_some() {
        return format!("a {} has one {lent}: {LEAVE_OUT}", parameters.kind.noun());
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
    if args.effects != Some(Effects::Database) || args.kind == Some(Kind::Messages) {
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
    if args.kind == Some(Kind::Messages) {
        return;
    }
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
