//! Collects every mistake, not only the first, and finds the name that was probably meant. Uses no other module.
//! A collection that is dropped unread would hide a mistake, so dropping it unread panics.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;

/// Every mistake, in the order found.
pub(crate) struct Errors {
    found: Option<Vec<syn::Error>>,
}

impl Errors {
    pub(crate) fn new() -> Self {
        Self { found: Some(Vec::new()) }
    }

    /// Adds a mistake with its caret on one span.
    pub(crate) fn at(&mut self, span: Span, message: impl std::fmt::Display) {
        self.push(syn::Error::new(span, message));
    }

    /// Adds a mistake with its caret under all of `tokens`.
    pub(crate) fn on(&mut self, tokens: impl ToTokens, message: impl std::fmt::Display) {
        self.push(syn::Error::new_spanned(tokens, message));
    }

    pub(crate) fn push(&mut self, error: syn::Error) {
        self.found.get_or_insert_default().push(error);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.as_ref().is_none_or(Vec::is_empty)
    }

    /// The mistakes, as `compile_error!` items.
    pub(crate) fn read(mut self) -> Vec<TokenStream> {
        self.found.take().unwrap_or_default().iter().map(syn::Error::to_compile_error).collect()
    }
}

impl Drop for Errors {
    fn drop(&mut self) {
        assert!(self.found.is_none() || std::thread::panicking(), "errors were dropped unread");
    }
}

/// `names` sorted, each in backticks.
pub(crate) fn listed<S: AsRef<str>>(names: &[S]) -> String {
    let mut names: Vec<_> = names.iter().map(AsRef::as_ref).collect();
    names.sort_unstable();
    names.dedup();
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

/// "a, b or c".
pub(crate) fn alternatives<S: AsRef<str>>(written: &[S]) -> String {
    let written: Vec<_> = written.iter().map(AsRef::as_ref).collect();
    match written.as_slice() {
        [earlier @ .., last] if !earlier.is_empty() => format!("{} or {last}", earlier.join(", ")),
        _ => written.concat(),
    }
}

/// The one of `names` that was probably meant by `typed`.
pub(crate) fn meant<'n, S: AsRef<str>>(typed: &str, names: &'n [S]) -> Option<&'n str> {
    names
        .iter()
        .map(|name| (distance(typed, name.as_ref()), name.as_ref()))
        .filter(|(distance, name)| *distance <= 1.max(typed.len().min(name.len()) / 3))
        .min()
        .map(|(_, name)| name)
}

/// How a message about the unknown name `typed` ends: with the near name or, if none is near, with all of them.
pub(crate) fn did_you_mean<S: AsRef<str>>(typed: &str, kind: &str, names: &[S]) -> String {
    match meant(typed, names) {
        Some(near) => format!(", did you mean `{near}`?"),
        None => format!(" ({kind}: {})", listed(names)),
    }
}

/// How many letters to insert, drop, replace or swap with their neighbour make `a` into `b`.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let mut least = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    least = least.min(rows[i - 2][j - 2] + 1);
                }
                least
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_meant_and_far_ones_are_not() {
        let names = ["scope", "retention", "key"];
        assert_eq!(meant("scpoe", &names), Some("scope"));
        assert_eq!(meant("retenton", &names), Some("retention"));
        assert_eq!(meant("keys", &names), Some("key"));
        assert_eq!(meant("lease", &names), None);
    }

    #[test]
    fn a_near_name_needs_no_list() {
        let names = ["scope", "retention"];
        assert_eq!(did_you_mean("scpoe", "options", &names), ", did you mean `scope`?");
        assert_eq!(did_you_mean("lease", "options", &names), " (options: `retention`, `scope`)");
    }

    #[test]
    fn the_last_alternative_follows_an_or() {
        assert_eq!(alternatives(&["a"]), "a");
        assert_eq!(alternatives(&["a", "b"]), "a or b");
        assert_eq!(alternatives(&["a", "b", "c"]), "a, b or c");
    }

    #[test]
    fn lists_are_sorted() {
        assert_eq!(listed(&["b", "a", "b"]), "`a`, `b`");
    }

    #[test]
    #[should_panic(expected = "dropped unread")]
    fn errors_cannot_be_forgotten() {
        let mut errors = Errors::new();
        errors.at(Span::call_site(), "forgotten");
    }
}
