//! The handler's parameters told apart: what it is lent by `&mut`, and its extractors.
//! By the types' names only, as in `types`.

use quote::ToTokens as _;
use syn::{FnArg, PatType, Type, TypeReference};

use crate::{
    item::function::Handler,
    item::types,
    options::args::{Args, Effects},
    plan::kind::Kind,
};

pub(crate) struct Parameters<'p> {
    /// The effects that the handler says it has or, where that is not readable, that its parameters suit.
    pub(crate) effects: Effects,
    /// What the function is; a handler of requests where that is not readable.
    pub(crate) kind: Kind,
    /// No extractor is `&mut`: whatever is, is lent.
    pub(crate) lent: Vec<Lent<'p>>,
    /// The others; of a consumer, whatever it is called with.
    pub(crate) extractors: Vec<&'p PatType>,
}

#[derive(Clone, Copy)]
pub(crate) struct Lent<'p> {
    pub(crate) parameter: &'p PatType,
    pub(crate) reference: &'p TypeReference,
}

impl<'p> Parameters<'p> {
    pub(crate) fn of(args: &Args, handler: &'p Handler) -> Self {
        let (mut all, mut extractors) = (Vec::new(), Vec::new());
        for parameter in typed(handler) {
            match lent(parameter) {
                Some(reference) => all.push(Lent { parameter, reference }),
                None => extractors.push(parameter),
            }
        }
        let suited = || {
            if typed(handler).any(|typed| types::is_attempt(types::behind(&typed.ty))) {
                Effects::External
            } else {
                Effects::Database
            }
        };
        let kind = args.kind_of(handler).unwrap_or(Kind::Requests);
        Self { effects: args.effects.unwrap_or_else(suited), kind, lent: all, extractors }
    }

    /// What is lent, other than what belongs to the other effects.
    pub(crate) fn fitting(&self) -> impl Iterator<Item = &Lent<'p>> {
        self.lent.iter().filter(|lent| !self.is_of_other_effects(&lent.parameter.ty))
    }

    /// The types of the parameters that belong to the other effects, each with whether it is one too many: because
    /// another is lent, or will be when the one before has been put right.
    pub(crate) fn of_other_effects(&self) -> impl Iterator<Item = (&'p Type, bool)> {
        let lent = self.lent.iter().map(|lent| &*lent.parameter.ty).filter(|ty| self.is_of_other_effects(ty));
        let given = self.extractors.iter().map(|extractor| &*extractor.ty).filter(|ty| self.is_of_other_effects(ty));
        let mut too_many = self.fitting().next().is_some();
        lent.chain(given).map(move |ty| (ty, std::mem::replace(&mut too_many, true)))
    }

    /// Whether a parameter of this type belongs to the other effects.
    pub(crate) fn is_of_other_effects(&self, ty: &Type) -> bool {
        let is_lent = matches!(ty, Type::Reference(reference) if reference.mutability.is_some());
        let ty = types::behind(ty);
        match self.effects {
            // An extractor of the user's may have that name.
            Effects::Database => types::is_attempt(ty) && (is_lent || types::argument(ty).is_some()),
            Effects::External => types::is_connection(ty) || is_lent && types::unsupported(ty).is_some(),
        }
    }

    /// A transaction or an attempt, whichever this handler is lent, but by value or by a shared reference.
    pub(crate) fn is_mistaken(&self, ty: &Type) -> bool {
        let ty = types::behind(ty);
        match self.effects {
            Effects::Database => types::is_connection(ty),
            Effects::External => types::is_attempt(ty) && (types::argument(ty).is_some() || self.lent.is_empty()),
        }
    }
}

impl Effects {
    /// What a handler with these is lent, as messages call it.
    pub(crate) fn lent(self) -> &'static str {
        match self {
            Self::Database => "transaction",
            Self::External => "attempt",
        }
    }

    /// The trait of the runtime that the types which can be lent have.
    pub(crate) fn on(self) -> &'static str {
        match self {
            Self::Database => "OnDatabase",
            Self::External => "OnAttempt",
        }
    }
}

pub(crate) fn typed(handler: &Handler) -> impl Iterator<Item = &PatType> {
    handler.sig.inputs.iter().filter_map(|argument| match argument {
        FnArg::Typed(typed) => Some(typed),
        FnArg::Receiver(_) => None,
    })
}

pub(crate) fn lent(typed: &PatType) -> Option<&TypeReference> {
    match &*typed.ty {
        Type::Reference(reference) if reference.mutability.is_some() => Some(reference),
        _ => None,
    }
}

/// How to take an attempt, of the database of `ty` where that is known.
pub(crate) fn attempt_for(ty: &Type) -> String {
    types::database(ty).map_or_else(
        || "`&mut Attempt<Postgres>` or `&mut Attempt<Sqlite>`".to_owned(),
        |database| format!("`&mut Attempt<{database}>`"),
    )
}

/// How to take the open transaction, of the database of `ty` where that is known.
pub(crate) fn transaction_for(ty: &Type) -> String {
    match types::database(ty).as_deref() {
        Some("Postgres") => "`&mut PgConnection`".to_owned(),
        Some("Sqlite") => "`&mut SqliteConnection`".to_owned(),
        Some(other) => format!("`&mut Transaction<'_, {other}>`"),
        None => "`&mut PgConnection` or `&mut SqliteConnection`".to_owned(),
    }
}

/// `ty` as people write it.
pub(crate) fn written(ty: &Type) -> String {
    ty.to_token_stream()
        .to_string()
        .replace(" :: ", "::")
        .replace(" < ", "<")
        .replace(" >", ">")
        .replace("& ", "&")
        .replace("'static", "'_")
}
