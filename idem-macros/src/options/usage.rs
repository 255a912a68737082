//! What errors say about an option: what was expected, and where the option does not apply.
//! All texts come from the option's row.

use proc_macro2::Span;
use quote::ToTokens;
use syn::parse::ParseStream;

use super::row::{Form, Row};
use crate::errors::alternatives;

impl Row {
    /// What to write, as errors say it after "expected".
    fn expected(&self) -> String {
        if self.expected.is_empty() {
            let words: Vec<_> = self.words.iter().map(|word| format!("`{}`", word.written)).collect();
            alternatives(&words)
        } else {
            self.expected.to_owned()
        }
    }

    /// The value at `span` is not one of this option.
    pub(super) fn invalid(&self, span: Span) -> syn::Error {
        syn::Error::new(span, self.invalid_text())
    }

    /// `tokens` are not a value of this option.
    pub(super) fn invalid_on(&self, tokens: impl ToTokens) -> syn::Error {
        syn::Error::new_spanned(tokens, self.invalid_text())
    }

    fn invalid_text(&self) -> String {
        format!("invalid value for `{}`: expected {}", self.name, self.expected())
    }

    /// The next token does not begin a value of this option.
    pub(super) fn invalid_next(&self, input: ParseStream<'_>) -> syn::Error {
        self.invalid(input.cursor().token_tree().map_or_else(|| input.span(), |(token, _)| token.span()))
    }

    /// The option stands at `span` without a value.
    pub(super) fn missing(&self, span: Span) -> syn::Error {
        let what = match self.form {
            Form::Flag | Form::Value(_) => "missing value for",
            Form::List(_) => "missing list in parentheses after",
        };
        syn::Error::new(span, format!("{what} `{}`: expected {}", self.name, self.expected()))
    }

    /// The list at `span` has nothing in it.
    pub(super) fn empty(&self, span: Span) -> syn::Error {
        syn::Error::new(span, format!("`{}` is empty: expected {}", self.name, self.expected()))
    }

    /// The flag has a value at `span`.
    pub(super) fn takes_no_value(&self, span: Span) -> syn::Error {
        let name = self.name;
        syn::Error::new(span, format!("`{name}` takes no value: write `{name}` alone"))
    }

    /// Something follows the option that is no comma.
    pub(super) fn no_comma(&self, input: ParseStream<'_>) -> syn::Error {
        let name = self.name;
        match self.form {
            Form::Flag => input.error(format!("expected a comma after `{name}`")),
            Form::List(_) | Form::Value(_) => input.error(format!("expected a comma after the value of `{name}`")),
        }
    }
}
