//! The three kinds of functions that the attribute makes: request handlers, webhook handlers, consumers.
//! The options decide; if they leave it open, the parameters do.

use crate::{
    item::{Function, patterns},
    options::{Args, Setting, Value},
};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An axum handler whose key is in a header.
    Request,
    /// An axum handler whose key is in the event that it receives.
    Webhook,
    /// A function that the user's own code calls for each message.
    Consumer,
}

impl Kind {
    /// The kind that the options choose. `None`: the option that decides could not be read.
    pub(crate) fn of_options(args: &Args) -> Option<Self> {
        if args.get("webhook").is_some() {
            Some(Self::Webhook)
        } else if args.mentions("webhook") {
            None
        } else if args.key().is_some() {
            Some(Self::Consumer)
        } else if key_presence(args) {
            Some(Self::Request)
        } else if args.mentions("key") || args.get("payload").is_some() {
            None
        } else {
            Some(Self::Request)
        }
    }

    /// The kind of `function` with these options. `None`: unknown.
    pub(crate) fn of(args: &Args, function: &Function) -> Option<Self> {
        // A word that names no parameter is probably a misspelled `optional` or `required`.
        let is_consumer = || {
            args.payload().is_some()
                || args.key().is_none_or(|key| {
                    !key.is_name() || function.typed().any(|typed| patterns::binds(&typed.pat, &key.parameter))
                })
        };
        Self::of_options(args).filter(|kind| *kind != Self::Consumer || is_consumer())
    }

    /// The noun for such a function in errors.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Self::Request | Self::Webhook => "handler",
            Self::Consumer => "consumer",
        }
    }

    /// The plural noun for such functions in errors.
    pub(crate) fn plural(self) -> &'static str {
        match self {
            Self::Request => "request handlers",
            Self::Webhook => "webhook handlers",
            Self::Consumer => "consumers",
        }
    }

    /// What the parameter that `scope` names identifies.
    pub(crate) fn scope_noun(self) -> &'static str {
        match self {
            Self::Request => "the caller",
            Self::Webhook => "the sender of the events",
            Self::Consumer => "the source of the messages",
        }
    }
}

/// Whether `key` is `optional` or `required`.
pub(super) fn key_presence(args: &Args) -> bool {
    matches!(args.get("key").map(|key| &key.value), Some(Value::Setting(Setting::Word { .. })))
}
