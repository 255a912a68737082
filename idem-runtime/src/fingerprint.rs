//! What tells two requests under one key apart: a versioned digest of method, original path, query and body.
//! The rule it was made by is stored in front, so that an old record is compared by its own rule.

use bytes::Bytes;
use http::request::Parts;

use crate::{canonical, digest::Digest, policy};

/// How a fingerprint was made. The number is stored; never give one another meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Bytes = 1,
    Json = 2,
    Declared = 3,
}

impl Rule {
    fn from_number(number: u8) -> Option<Self> {
        [Self::Bytes, Self::Json, Self::Declared].into_iter().find(|rule| *rule as u8 == number)
    }
}

/// A rule's number, then its digest: what a record stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Print {
    rule: Rule,
    digest: Digest,
}

impl Print {
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        [&[self.rule as u8], self.digest.as_bytes()].concat()
    }
}

/// How a request relates to a stored fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Same,
    Other,
    /// Made by a rule this version or this handler does not have.
    Unknown,
}

/// The parts of a request that a fingerprint is made of.
pub(crate) struct Subject<'r> {
    pub(crate) parts: &'r Parts,
    /// The path and query that the client sent, before any router took a prefix off.
    pub(crate) uri: &'r http::Uri,
    pub(crate) body: &'r Bytes,
}

impl Subject<'_> {
    pub(crate) fn print(&self, policy: policy::Fingerprint) -> Print {
        match policy {
            policy::Fingerprint::Bytes => self.bytes(),
            policy::Fingerprint::Json => self.json(),
            policy::Fingerprint::Declared(declared) => self.declared(declared),
        }
    }

    /// Compares the request, whose own fingerprint is `print`, with a record's, by the rule that made that one.
    pub(crate) fn compare(&self, print: Print, stored: &[u8], policy: policy::Fingerprint) -> Comparison {
        let Some((&number, digest)) = stored.split_first() else {
            return Comparison::Unknown;
        };
        let print = match (Rule::from_number(number), policy) {
            (Some(rule), _) if rule == print.rule => print,
            (Some(Rule::Bytes), _) => self.bytes(),
            (Some(Rule::Json), _) => self.json(),
            (Some(Rule::Declared), policy::Fingerprint::Declared(declared)) => self.declared(declared),
            (Some(Rule::Declared) | None, _) => return Comparison::Unknown,
        };
        if print.digest.as_bytes() == digest { Comparison::Same } else { Comparison::Other }
    }

    pub(crate) fn bytes(&self) -> Print {
        self.digest(Rule::Bytes, [self.query(), self.body])
    }

    fn json(&self) -> Print {
        match canonical::json(self.body) {
            Some(canonical) => self.digest(Rule::Json, [self.query(), b"json", canonical.as_slice()]),
            None => self.digest(Rule::Json, [self.query(), b"bytes", self.body]),
        }
    }

    fn declared(&self, declared: fn(&Parts, &Bytes) -> Vec<u8>) -> Print {
        self.digest(Rule::Declared, [declared(self.parts, self.body).as_slice()])
    }

    /// With its question mark, so that an empty query and none differ.
    fn query(&self) -> &[u8] {
        let path_and_query = self.uri.path_and_query().map_or("", http::uri::PathAndQuery::as_str);
        path_and_query.find('?').map_or(&[], |at| &path_and_query.as_bytes()[at..])
    }

    fn digest<const N: usize>(&self, rule: Rule, rest: [&[u8]; N]) -> Print {
        let name = match rule {
            Rule::Bytes => "fingerprint bytes",
            Rule::Json => "fingerprint json",
            Rule::Declared => "fingerprint declared",
        };
        let start = [self.parts.method.as_str().as_bytes(), self.uri.path().as_bytes()];
        Print { rule, digest: Digest::of(name, start.into_iter().chain(rest)) }
    }
}
