//! The columns of the options table.
//! One row holds all that the crate knows about one option: everything else is read from it.

use syn::{Result, parse::ParseStream};

use super::{args::Value, values};

/// Reads the value of the option whose row it is given.
pub(crate) type Reader = fn(&'static Row, ParseStream<'_>) -> Result<Value>;

/// One option.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) form: Form,
    /// The words that the value may be, if it is a word.
    pub(crate) words: &'static [Word],
    /// The enum of the runtime whose variants the words are.
    pub(crate) enum_name: &'static str,
    /// What an error says was expected. Empty: the words.
    pub(crate) expected: &'static str,
    /// The setter of the runtime's handler options that takes the value. `None`: the option only steers the expansion.
    pub(crate) setter: Option<&'static str>,
    pub(crate) refused: Refused,
}

/// How an option is written.
pub(crate) enum Form {
    /// `store_request`
    Flag,
    /// `allow(…)`
    List(Reader),
    /// `retention = …`
    Value(Reader),
}

/// A word that a value may be, as it is written, and the variant of the runtime's enum that it means.
pub(crate) struct Word {
    pub(crate) written: &'static str,
    pub(crate) variant: &'static str,
}

/// Where an option does not apply, and what to do instead.
#[derive(Default)]
pub(crate) struct Refused {
    pub(crate) requests: Option<&'static str>,
    pub(crate) webhooks: Option<&'static str>,
    pub(crate) consumers: Option<&'static str>,
    pub(crate) database_effects: Option<&'static str>,
}

impl Row {
    /// An option without a value.
    pub(crate) const fn flag(name: &'static str) -> Self {
        Self::new(name, Form::Flag, "")
    }

    /// An option whose value is one of `words`, each a variant of the runtime's enum `enum_name`.
    pub(crate) const fn words(name: &'static str, enum_name: &'static str, words: &'static [Word]) -> Self {
        Self { words, enum_name, ..Self::new(name, Form::Value(values::word), "") }
    }

    /// An option with a value that `read` reads.
    pub(crate) const fn value(name: &'static str, read: Reader, expected: &'static str) -> Self {
        Self::new(name, Form::Value(read), expected)
    }

    /// An option with a list in parentheses that `read` reads.
    pub(crate) const fn list(name: &'static str, read: Reader, expected: &'static str) -> Self {
        Self::new(name, Form::List(read), expected)
    }

    const fn new(name: &'static str, form: Form, expected: &'static str) -> Self {
        let refused = Refused { requests: None, webhooks: None, consumers: None, database_effects: None };
        Self { name, form, words: &[], enum_name: "", expected, setter: None, refused }
    }

    /// The value may also be one of `words`.
    pub(crate) const fn or_words(mut self, enum_name: &'static str, words: &'static [Word]) -> Self {
        (self.enum_name, self.words) = (enum_name, words);
        self
    }

    /// The value goes to the setter of the same name.
    pub(crate) const fn set(self) -> Self {
        let name = self.name;
        self.set_by(name)
    }

    /// The value goes to `setter`, which takes it in the unit that the attribute has converted it to.
    pub(crate) const fn set_by(mut self, setter: &'static str) -> Self {
        self.setter = Some(setter);
        self
    }

    pub(crate) const fn not_on_requests(mut self, instead: &'static str) -> Self {
        self.refused.requests = Some(instead);
        self
    }

    pub(crate) const fn not_on_webhooks(mut self, instead: &'static str) -> Self {
        self.refused.webhooks = Some(instead);
        self
    }

    pub(crate) const fn not_on_consumers(mut self, instead: &'static str) -> Self {
        self.refused.consumers = Some(instead);
        self
    }

    pub(crate) const fn not_on_database_effects(mut self, instead: &'static str) -> Self {
        self.refused.database_effects = Some(instead);
        self
    }
}
