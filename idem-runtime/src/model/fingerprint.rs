//! The fingerprint of a request: a versioned digest of method, original path, query and body.
//! The rule's number is stored before the digest, so an old record is compared by the rule that made it.

use bytes::Bytes;
use http::request::Parts;

use crate::model::{canonical_json, digest::Digest, options::FingerprintRule};

/// The rule that made a fingerprint. The number is stored: never change its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Bytes = 1,
    Json = 2,
    Function = 3,
    /// The payload of a message, which is not a request.
    Message = 4,
}

impl Rule {
    fn from_number(number: u8) -> Option<Self> {
        [Self::Bytes, Self::Json, Self::Function, Self::Message].into_iter().find(|rule| *rule as u8 == number)
    }
}

/// What a record stores: a rule's number, then the digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    rule: Rule,
    digest: Digest,
}

impl Fingerprint {
    /// The fingerprint of a message's payload.
    pub(crate) fn of_message(payload: &[u8]) -> Self {
        Self { rule: Rule::Message, digest: Digest::of("fingerprint message", [payload]) }
    }

    /// The fingerprint of a message or an event that is compared by its id alone.
    pub(crate) fn of_nothing() -> Self {
        Self::of_message(&[])
    }

    /// Whether stored bytes are the fingerprint by a rule of this version: another length is damage.
    pub(crate) fn is_known(stored: &[u8]) -> bool {
        stored.split_first().is_some_and(|(&rule, digest)| digest.len() == 32 && Rule::from_number(rule).is_some())
    }

    pub(crate) fn to_bytes(self) -> Vec<u8> {
        [&[self.rule as u8], self.digest.as_bytes()].concat()
    }
}

/// How a request relates to a stored fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Same,
    Other,
    /// The rule that made it is missing in this version or this handler.
    Unknown,
}

/// The parts of a request that a fingerprint is made of.
pub(crate) struct Subject<'r> {
    pub(crate) parts: &'r Parts,
    /// The path and query that the client sent, before any router stripped a prefix.
    pub(crate) uri: &'r http::Uri,
    pub(crate) body: &'r Bytes,
}

impl Subject<'_> {
    /// The fingerprint by a rule.
    pub(crate) fn fingerprint(&self, rule: FingerprintRule) -> Fingerprint {
        match rule {
            FingerprintRule::Bytes => self.digest(Rule::Bytes, [self.query(), self.body]),
            FingerprintRule::Json => self.json(),
            FingerprintRule::Custom(function) => self.by_function(function),
        }
    }

    /// Compares the request with a stored fingerprint, by the rule that made the stored one. `own` is the request's
    /// fingerprint.
    pub(crate) fn compare(&self, own: Fingerprint, stored: &[u8], rule: FingerprintRule) -> Comparison {
        let Some((&number, digest)) = stored.split_first().filter(|_| Fingerprint::is_known(stored)) else {
            return Comparison::Unknown;
        };
        let fingerprint = match (Rule::from_number(number), rule) {
            (Some(made_by), _) if made_by == own.rule => own,
            (Some(Rule::Bytes), _) => self.fingerprint(FingerprintRule::Bytes),
            (Some(Rule::Json), _) => self.json(),
            (Some(Rule::Function), FingerprintRule::Custom(function)) => self.by_function(function),
            // Stored when only the id counted.
            (Some(Rule::Message), _) => Fingerprint::of_nothing(),
            (Some(Rule::Function) | None, _) => return Comparison::Unknown,
        };
        if fingerprint.digest.as_bytes() == digest { Comparison::Same } else { Comparison::Other }
    }

    fn json(&self) -> Fingerprint {
        match canonical_json::json(self.body) {
            Some(canonical) => self.digest(Rule::Json, [self.query(), b"json", canonical.as_slice()]),
            None => self.digest(Rule::Json, [self.query(), b"bytes", self.body]),
        }
    }

    fn by_function(&self, function: fn(&Parts, &Bytes) -> Vec<u8>) -> Fingerprint {
        self.digest(Rule::Function, [function(self.parts, self.body).as_slice()])
    }

    /// The query with its question mark, so that an empty query and none differ.
    fn query(&self) -> &[u8] {
        let path_and_query = self.uri.path_and_query().map_or("", http::uri::PathAndQuery::as_str);
        path_and_query.find('?').map_or(&[], |at| &path_and_query.as_bytes()[at..])
    }

    fn digest<const N: usize>(&self, rule: Rule, rest: [&[u8]; N]) -> Fingerprint {
        let name = match rule {
            Rule::Bytes => "fingerprint bytes",
            Rule::Json => "fingerprint json",
            Rule::Function => "fingerprint declared",
            Rule::Message => "fingerprint message",
        };
        let start = [self.parts.method.as_str().as_bytes(), self.uri.path().as_bytes()];
        Fingerprint { rule, digest: Digest::of(name, start.into_iter().chain(rest)) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, num::u8::ANY, prop_assert_eq, proptest};

    use super::*;

    fn fingerprint(method: &str, target: &str, header: &[u8], body: &[u8], policy: FingerprintRule) -> Fingerprint {
        let request = http::Request::builder().method(method).uri(target).header("x-any", header).body(());
        let (parts, ()) = request.expect("a request").into_parts();
        let body = Bytes::copy_from_slice(body);
        Subject { uri: &parts.uri, parts: &parts, body: &body }.fingerprint(policy)
    }

    proptest! {
        #[test]
        fn b16_headers_do_not_count(a in "[ -~]{0,20}", b in "[ -~]{0,20}", body in vec(ANY, 0..50)) {
            for policy in [FingerprintRule::Bytes, FingerprintRule::Json] {
                let [a, b] = [&a, &b].map(|header| fingerprint("POST", "/p?q=1", header.as_bytes(), &body, policy));
                prop_assert_eq!(a, b);
            }
        }

        #[test]
        fn b13_nothing_can_move_from_one_part_to_another(text in "[a-z]{1,12}", one in 0..13_usize, other in 0..13_usize) {
            let cut_at = |at: usize| {
                let (query, body) = text.split_at(at.min(text.len()));
                fingerprint("POST", &format!("/p?{query}"), b"", body.as_bytes(), FingerprintRule::Bytes)
            };
            let same = one.min(text.len()) == other.min(text.len());
            prop_assert_eq!(cut_at(one) == cut_at(other), same);
        }

        #[test]
        fn b11_members_may_stand_in_any_order(values in proptest::collection::btree_map("[a-z]{1,4}", 0..99_u8, 1..6)) {
            let object = |members: Vec<(&String, &u8)>, space: &str| {
                let members = members.iter().map(|(name, value)| format!("{space}\"{name}\":{space}{value}"));
                format!("{{{}{space}}}", members.collect::<Vec<_>>().join(","))
            };
            let forth = object(values.iter().collect(), "");
            let back = object(values.iter().rev().collect(), " ");
            let json = |body: &str| fingerprint("POST", "/p", b"", body.as_bytes(), FingerprintRule::Json);
            prop_assert_eq!(json(&forth), json(&back));
        }
    }

    /// Four rules; each golden value is the rule's number, then SHA-256 over the length-prefixed parts.
    #[test]
    fn b20_every_rule_is_pinned() {
        fn order(_: &Parts, _: &Bytes) -> Vec<u8> {
            b"order 17".to_vec()
        }
        let of = |body: &[u8], policy| fingerprint("POST", "/p?a=1", b"", body, policy);
        let object = br#"{"b":2,"a":1}"#;
        for (fingerprint, golden) in [
            (of(object, FingerprintRule::Bytes), "01e19a0078e849de75b396c9f9c26d75286ca4a906de39afbcd33858f726bc85cd"),
            (of(object, FingerprintRule::Json), "02765e86468788576aa17e6e3cb32bcaf33502b3623fb1fdf60fc2fa39246023b0"),
            (
                of(b"no json", FingerprintRule::Json),
                "0277a5b3a8654674352dfd0462c8d6c806e29a993540a814a85d5052c3765149e0",
            ),
            (
                of(object, FingerprintRule::Custom(order)),
                "03f8be4a71faa14395682ca81797a172ae01ba55953bc4e369c5863798db28eb24",
            ),
            (Fingerprint::of_message(b"payload"), "04231166dcdad55f6ea95e8cc2919482cb2add7456e0476ea88ec86ccc08d7fc00"),
            (Fingerprint::of_nothing(), "04d72451a558cd4b3608bed1426a1619856097a55dcb18cbf8db4d75fe3c9909fe"),
        ] {
            let hex = fingerprint.to_bytes().iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
            assert_eq!(hex, golden);
        }
    }

    #[test]
    fn b12_an_empty_query_and_none_are_two_requests() {
        let of = |target| fingerprint("POST", target, b"", b"", FingerprintRule::Bytes);
        assert_ne!(of("/p"), of("/p?"));
        assert_ne!(of("/p?a=%41"), of("/p?a=A"));
        assert_ne!(of("/p?a=1&b=2"), of("/p?b=2&a=1"));
    }
}
