//! The parameters: one by `&mut`, the transaction or the attempt.
//! The others are extractors in the order that axum allows.

use syn::{Type, TypeReference};

use crate::{
    errors::Errors,
    item::{Function, TxParam, types, types::written},
    options::{Args, Effects, Permission},
    plan::{
        kind::Kind,
        roles::{Roles, Superfluous},
    },
};

/// The size of axum's longest tuple of extractors.
const MAX_EXTRACTORS: usize = 16;

const REMOVE: &str = "remove this parameter";

pub(super) fn one_tx_param(function: &Function, roles: &Roles<'_>, errors: &mut Errors) {
    let (tx_noun, noun) = (roles.tx_noun(), roles.kind.noun());
    let is_named = |tx_param: &&TxParam<'_>| types::is_connection(&tx_param.reference.elem);
    let first = roles.matching().find(is_named).or_else(|| roles.matching().next());
    let is_first = |reference: &TypeReference| first.is_some_and(|first| std::ptr::eq(first.reference, reference));
    for second in roles.matching().filter(|tx_param| !is_first(tx_param.reference)) {
        let message = if roles.kind == Kind::Consumer && !is_named(&second) {
            "the only `&mut` parameter of a consumer is its transaction: take this by value or by `&`".to_owned()
        } else {
            format!("a {noun} has one {tx_noun}: remove this `&mut` parameter")
        };
        errors.on(second.reference, message);
    }
    if function.sig.generics.lt_token.is_some() {
        return;
    }
    for lifetime in roles.matching().filter_map(|tx_param| tx_param.reference.lifetime.as_ref()) {
        errors.on(lifetime, format!("the {tx_noun} is borrowed for one call: remove the lifetime"));
    }
}

pub(super) fn has_tx_param(function: &Function, roles: &Roles<'_>, errors: &mut Errors) {
    let has_candidate = roles.extractors.iter().any(|extractor| roles.is_by_value(&extractor.ty))
        || roles.wrong_effects().next().is_some();
    if !roles.tx_params.is_empty() || has_candidate || function.sig.receiver().is_some() {
        return;
    }
    let message = match roles.effects {
        Effects::Database => format!(
            "a {} needs the open transaction: add `tx: &mut PgConnection` or `tx: &mut SqliteConnection`",
            roles.kind.noun()
        ),
        Effects::External => {
            "a handler with external effects needs its attempt: add `attempt: &mut Attempt<Postgres>` or \
             `attempt: &mut Attempt<Sqlite>`, and send `attempt.key(\"…\")` to the other system"
                .to_owned()
        }
    };
    errors.at(function.sig.paren_token.span.join(), message);
}

/// idem can open a transaction on the one connection.
pub(super) fn connection_supported(roles: &Roles<'_>, errors: &mut Errors) {
    if let (Effects::Database, [only]) = (roles.effects, roles.tx_params.as_slice())
        && let Some(name) = types::unsupported(&only.reference.elem)
    {
        errors.on(
            only.reference,
            format!(
                "expected a transaction that idem can open, found `{name}`: write `&mut PgConnection`, \
                 `&mut SqliteConnection` or `&mut Transaction<'_, Db>`"
            ),
        );
    }
}

pub(super) fn no_attempt_with_database_effects(roles: &Roles<'_>, errors: &mut Errors) {
    if roles.effects != Effects::Database {
        return;
    }
    for (ty, superfluous) in roles.wrong_effects() {
        let instead = match superfluous {
            Superfluous::Yes => REMOVE.to_owned(),
            Superfluous::No => format!("take {}", transaction_for(types::behind(ty))),
        };
        let message = match roles.kind {
            Kind::Consumer => format!("an attempt is for handlers with external effects: {instead}"),
            Kind::Request | Kind::Webhook => {
                format!("an attempt is for external effects: add `effects = external`, or {instead}")
            }
        };
        errors.on(ty, message);
    }
}

pub(super) fn no_transaction_with_external_effects(roles: &Roles<'_>, errors: &mut Errors) {
    if roles.effects != Effects::External {
        return;
    }
    for (ty, superfluous) in roles.wrong_effects() {
        let behind = types::behind(ty);
        let instead = match superfluous {
            Superfluous::Yes => REMOVE.to_owned(),
            Superfluous::No => format!("take {}", attempt_for(behind)),
        };
        let why = match types::unsupported(behind) {
            Some(name) => format!("expected an attempt, found `{name}`"),
            None => {
                "expected an attempt, found a transaction, which cannot roll back calls to other systems".to_owned()
            }
        };
        errors.on(ty, format!("{why}: {instead}, and write local rows through `attempt.transaction()`"));
    }
}

pub(super) fn are_extractors(roles: &Roles<'_>, errors: &mut Errors) {
    for ty in roles.extractor_types() {
        if roles.is_by_value(ty) {
            errors.on(ty, by_mutable_reference(ty, roles));
        } else if let Some(reference) = types::reference(ty) {
            errors.on(reference, "expected an extractor, found a reference: remove the `&`");
        } else if types::is_plain(ty) {
            let found = written(ty);
            errors.on(
                ty,
                format!("expected an extractor, found `{found}`: write an extractor of it, such as `Path<{found}>`"),
            );
        } else if let Some(word) = types::impl_trait(ty) {
            errors.at(word.span(), "a handler cannot be generic: write a concrete type instead of `impl …`");
        }
    }
}

/// How to take a transaction or an attempt that was taken by value or by a shared reference.
pub(super) fn by_mutable_reference(ty: &Type, roles: &Roles<'_>) -> String {
    let tx_noun = roles.tx_noun();
    if roles.matching().next().is_some() {
        return format!("a {} has one {tx_noun}: {REMOVE}", roles.kind.noun());
    }
    let behind = types::behind(ty);
    let instead = match types::argument(behind) {
        None if roles.effects == Effects::External => attempt_for(behind),
        _ => format!("`&mut {}`", written(behind)),
    };
    format!("take the {tx_noun} by mutable reference: {instead}")
}

pub(super) fn at_most_sixteen(roles: &Roles<'_>, errors: &mut Errors) {
    if let Some(extra) = roles.extractors.get(MAX_EXTRACTORS) {
        let message = format!(
            "a handler takes at most {MAX_EXTRACTORS} extractors and the {}: join some in a tuple, `(a, b): (A, B)`",
            roles.tx_noun()
        );
        errors.on(&extra.ty, message);
    }
}

pub(super) fn body_last(roles: &Roles<'_>, errors: &mut Errors) {
    let [earlier @ .., _] = roles.extractors.as_slice() else { return };
    for extractor in earlier {
        if let Some(name) = types::body_extractor(&extractor.ty) {
            errors.on(&extractor.ty, format!("`{name}` consumes the request body: make it the last parameter"));
        }
    }
}

pub(super) fn no_pool(args: &Args, roles: &Roles<'_>, errors: &mut Errors) {
    if args.allows(Permission::Pool) {
        return;
    }
    let through = match roles.effects {
        Effects::Database => "the `&mut` parameter",
        Effects::External => "`attempt.transaction()`",
    };
    for extractor in &roles.extractors {
        if let Some(pool) = types::pool(&extractor.ty) {
            let message = format!(
                "writes through `{pool}` are outside the transaction, and a retry repeats them: write through \
                 {through}, or add `allow(pool)` if the pool only reads"
            );
            errors.on(&extractor.ty, message);
        }
    }
}

/// How to take an attempt of the database of `ty`.
fn attempt_for(ty: &Type) -> String {
    types::database(ty).map_or_else(
        || "`&mut Attempt<Postgres>` or `&mut Attempt<Sqlite>`".to_owned(),
        |database| format!("`&mut Attempt<{database}>`"),
    )
}

/// How to take the open transaction of the database of `ty`.
fn transaction_for(ty: &Type) -> String {
    match types::database(ty).as_deref() {
        Some("Postgres") => "`&mut PgConnection`".to_owned(),
        Some("Sqlite") => "`&mut SqliteConnection`".to_owned(),
        Some(other) => format!("`&mut Transaction<'_, {other}>`"),
        None => "`&mut PgConnection` or `&mut SqliteConnection`".to_owned(),
    }
}
