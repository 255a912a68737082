//! The roles of the parameters under the chosen effects: the transaction or the attempt, and the extractors.
//! Effects that could not be read are guessed from the parameters, so that one mistake stays one error.

use proc_macro2::Ident;
use syn::{PatType, Type};

use super::kind::Kind;
use crate::{
    item::{Function, Parameters, TxParam, patterns, types},
    options::{Args, Effects},
};

pub(crate) struct Roles<'p> {
    pub(crate) effects: Effects,
    /// The function's kind; a request handler if unknown.
    pub(crate) kind: Kind,
    /// All parameters by `&mut`.
    pub(crate) tx_params: Vec<TxParam<'p>>,
    /// The others; a consumer's own parameters are here too.
    pub(crate) extractors: Vec<&'p PatType>,
}

impl<'p> Roles<'p> {
    pub(crate) fn of(args: &Args, function: &'p Function) -> Self {
        let Parameters { tx_params, extractors } = Parameters::of(function);
        let effects = chosen_effects(args).unwrap_or_else(|| {
            if function.typed().any(|typed| types::is_attempt(types::behind(&typed.ty))) {
                Effects::External
            } else {
                Effects::Database
            }
        });
        Self { effects, kind: Kind::of(args, function).unwrap_or(Kind::Request), tx_params, extractors }
    }

    /// The parameters by `&mut` except those of the wrong effects.
    pub(crate) fn matching(&self) -> impl Iterator<Item = &TxParam<'p>> {
        self.tx_params.iter().filter(|tx_param| !self.is_wrong_effects(&tx_param.parameter.ty))
    }

    /// The types of the parameters of the wrong effects. Each is superfluous if there is a matching parameter, or if
    /// the one before it will be corrected to one.
    pub(crate) fn wrong_effects(&self) -> impl Iterator<Item = (&'p Type, Superfluous)> {
        let tx_params = self.tx_params.iter().map(|tx_param| &*tx_param.parameter.ty);
        let all = tx_params.chain(self.extractors.iter().map(|extractor| &*extractor.ty));
        let mut next = if self.matching().next().is_some() { Superfluous::Yes } else { Superfluous::No };
        all.filter(|ty| self.is_wrong_effects(ty)).map(move |ty| (ty, std::mem::replace(&mut next, Superfluous::Yes)))
    }

    /// Whether a parameter of this type belongs to the other effects.
    pub(crate) fn is_wrong_effects(&self, ty: &Type) -> bool {
        let is_mutable = types::reference(ty).is_some_and(|reference| reference.mutability.is_some());
        let ty = types::behind(ty);
        match self.effects {
            // The user may have an extractor called `Attempt`.
            Effects::Database => types::is_attempt(ty) && (is_mutable || types::argument(ty).is_some()),
            Effects::External => types::is_connection(ty) || is_mutable && types::unsupported(ty).is_some(),
        }
    }

    /// Whether an extractor of this type is the transaction or the attempt, taken by value or by a shared reference.
    pub(crate) fn is_by_value(&self, ty: &Type) -> bool {
        let ty = types::behind(ty);
        match self.effects {
            Effects::Database => types::is_connection(ty),
            Effects::External => types::is_attempt(ty) && (types::argument(ty).is_some() || self.tx_params.is_empty()),
        }
    }

    /// The types of the extractors except those of the wrong effects.
    pub(crate) fn extractor_types(&self) -> impl Iterator<Item = &'p Type> {
        self.extractors.iter().map(|extractor| &*extractor.ty).filter(|ty| !self.is_wrong_effects(ty))
    }

    /// The noun for the parameter by `&mut` in errors.
    pub(crate) fn tx_noun(&self) -> &'static str {
        match self.effects {
            Effects::Database => "transaction",
            Effects::External => "attempt",
        }
    }

    /// The trait of the runtime that the types of the parameter by `&mut` implement.
    pub(crate) fn effects_trait(&self) -> &'static str {
        match self.effects {
            Effects::Database => "OnDatabase",
            Effects::External => "OnAttempt",
        }
    }

    /// Whether `name` is a parameter by `&mut`.
    pub(crate) fn is_tx_param(&self, name: &Ident) -> bool {
        self.tx_params.iter().any(|tx_param| patterns::binds(&tx_param.parameter.pat, name))
    }

    /// The extractor whose pattern binds `name`.
    pub(crate) fn owner(&self, name: &Ident) -> Option<&'p PatType> {
        self.extractors.iter().find(|extractor| patterns::binds(&extractor.pat, name)).copied()
    }

    /// The names that the extractors bind.
    pub(crate) fn names(&self) -> Vec<String> {
        let names = self.extractors.iter().flat_map(|extractor| patterns::names(&extractor.pat));
        names.map(|name| name.to_string()).collect()
    }
}

/// Whether a parameter can be removed without another in its place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Superfluous {
    Yes,
    No,
}

/// The effects that the options choose. A consumer's `effects` is an error, and then the parameters decide.
fn chosen_effects(args: &Args) -> Option<Effects> {
    let is_misplaced = Kind::of_options(args) == Some(Kind::Consumer) && args.mentions("effects");
    args.effects().filter(|_| !is_misplaced)
}
