//! What the attribute says: the options that could be read, each with its value and its place.
//! An option that could not be read is remembered by name, so that it does not also count as missing.

use proc_macro2::{Ident, Span};
use syn::Path;

use super::{
    expression::Expression,
    row::{Row, Word},
};

/// What the attribute says.
#[derive(Default)]
pub(crate) struct Args {
    given: Vec<Given>,
    /// The options that are mentioned, readable or not. A misspelled one counts as the one that was probably meant.
    mentioned: Vec<&'static str>,
}

/// An option that is given.
pub(crate) struct Given {
    pub(crate) option: &'static Row,
    pub(crate) value: Value,
    /// Where its name stands.
    pub(crate) name_span: Span,
    /// Where its value begins; for a flag, its name.
    pub(crate) value_span: Span,
}

pub(crate) enum Value {
    /// The runtime gets it, by the option's setter if there is one.
    Setting(Setting),
    Allow(Vec<Permission>),
    Crate(Path),
    Effects(Effects),
    Key(Expression),
    Operation(String),
    Payload(Expression),
    Scope(ScopeArg),
}

/// A value as the setters of the runtime's handler options take it.
pub(crate) enum Setting {
    Flag,
    Word {
        enum_name: &'static str,
        word: &'static Word,
    },
    Number(u64),
    /// The milliseconds of `in_progress = wait("…")`.
    Wait(u64),
    /// The path of `fingerprint = path`.
    Function(Path),
    /// The list of `methods`.
    Methods(Vec<&'static str>),
}

/// Where the effects of a handler are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effects {
    /// All in one transaction.
    Database,
    /// Some in another system.
    External,
}

/// What `allow(…)` allows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Permission {
    Pool,
    ShortRetention,
}

/// `scope = parameter` or `scope = (parameter, endpoint)`.
pub(crate) struct ScopeArg {
    pub(crate) parameter: Ident,
    /// The word `endpoint`.
    pub(crate) endpoint: Option<Ident>,
}

impl Args {
    pub(super) fn give(&mut self, given: Given) {
        self.given.push(given);
    }

    pub(super) fn mention(&mut self, option: &'static str) {
        self.mentioned.push(option);
    }

    /// The options that could be read, in the user's order.
    pub(crate) fn given(&self) -> &[Given] {
        &self.given
    }

    /// The option called `name`, if it could be read.
    pub(crate) fn get(&self, name: &str) -> Option<&Given> {
        self.given.iter().find(|given| given.option.name == name)
    }

    /// Whether the option called `name` is mentioned, readable or not.
    pub(crate) fn mentions(&self, name: &str) -> bool {
        self.mentioned.contains(&name)
    }

    pub(crate) fn allows(&self, permission: Permission) -> bool {
        self.values().any(|value| matches!(value, Value::Allow(permissions) if permissions.contains(&permission)))
    }

    pub(crate) fn crate_path(&self) -> Option<&Path> {
        self.find(|value| if let Value::Crate(path) = value { Some(path) } else { None })
    }

    /// The effects that the attribute says or, without the option, the default. `None`: the option could not be read.
    pub(crate) fn effects(&self) -> Option<Effects> {
        let default = (!self.mentions("effects")).then_some(Effects::Database);
        self.find(|value| if let Value::Effects(effects) = value { Some(*effects) } else { None }).or(default)
    }

    /// The key, if it is in a message or an event.
    pub(crate) fn key(&self) -> Option<&Expression> {
        self.find(|value| if let Value::Key(key) = value { Some(key) } else { None })
    }

    pub(crate) fn operation(&self) -> Option<&str> {
        self.find(|value| if let Value::Operation(name) = value { Some(name.as_str()) } else { None })
    }

    pub(crate) fn payload(&self) -> Option<&Expression> {
        self.find(|value| if let Value::Payload(payload) = value { Some(payload) } else { None })
    }

    pub(crate) fn scope(&self) -> Option<&ScopeArg> {
        self.find(|value| if let Value::Scope(scope) = value { Some(scope) } else { None })
    }

    fn values(&self) -> impl Iterator<Item = &Value> {
        self.given.iter().map(|given| &given.value)
    }

    fn find<'a, T>(&'a self, pick: impl Fn(&'a Value) -> Option<T>) -> Option<T> {
        self.values().find_map(pick)
    }
}
