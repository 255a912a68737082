//! The part of a request that is compared: its fingerprint by each rule, and its comparison with a stored one.
//! The rule that made the stored fingerprint decides, so a handler may change its own.

use bytes::Bytes;
use http::request::Parts;

use crate::model::{
    canonical_json,
    digest::Digest,
    fingerprint::{Differences, Fingerprint, Rule},
    options::FingerprintRule,
};

/// How a request relates to a stored fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Same,
    Other(Differences),
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
            FingerprintRule::Bytes => self.by_bytes(),
            FingerprintRule::Json => self.by_json(),
            #[cfg(feature = "form")]
            FingerprintRule::Form => self.by_form(),
            FingerprintRule::Custom(function) => self.by_function(function),
        }
    }

    /// Compares the request with a stored fingerprint, by the rule that made the stored one. `own` is the request's
    /// fingerprint.
    pub(crate) fn compare(&self, own: Fingerprint, stored: &[u8], rule: FingerprintRule) -> Comparison {
        let Some(stored) = Fingerprint::from_bytes(stored) else { return Comparison::Unknown };
        let fingerprint = match (stored.rule, rule) {
            (made_by, _) if made_by == own.rule => own,
            (Rule::Bytes, _) => self.by_bytes(),
            (Rule::Json, _) => self.by_json(),
            #[cfg(feature = "form")]
            (Rule::Form, _) => self.by_form(),
            (Rule::Function, FingerprintRule::Custom(function)) => self.by_function(function),
            // Stored when only the id counted.
            (Rule::Message, _) => Fingerprint::of_nothing(),
            (Rule::WholeBytes, _) => self.whole(Rule::WholeBytes, [self.query(), self.body]),
            (Rule::WholeJson, _) => match canonical_json::json(self.body) {
                Some(canonical) => self.whole(Rule::WholeJson, [self.query(), b"json", canonical.as_slice()]),
                None => self.whole(Rule::WholeJson, [self.query(), b"bytes", self.body]),
            },
            (Rule::WholeFunction, FingerprintRule::Custom(function)) => {
                self.whole(Rule::WholeFunction, [function(self.parts, self.body).as_slice()])
            }
            _ => return Comparison::Unknown,
        };
        if fingerprint.digest == stored.digest {
            Comparison::Same
        } else {
            Comparison::Other(fingerprint.differences(&stored))
        }
    }

    fn by_bytes(&self) -> Fingerprint {
        self.with_body(Rule::Bytes, self.bytes())
    }

    fn by_json(&self) -> Fingerprint {
        let canonical = canonical_json::json(self.body).map(|canonical| Digest::of("json", [canonical.as_slice()]));
        self.with_body(Rule::Json, canonical.unwrap_or_else(|| self.bytes()))
    }

    #[cfg(feature = "form")]
    fn by_form(&self) -> Fingerprint {
        let parts = super::form::digest(&self.parts.headers, self.body);
        self.with_body(Rule::Form, parts.unwrap_or_else(|| self.bytes()))
    }

    fn bytes(&self) -> Digest {
        Digest::of("bytes", [&self.body[..]])
    }

    /// A function returns all that counts beside method and path.
    fn by_function(&self, function: fn(&Parts, &Bytes) -> Vec<u8>) -> Fingerprint {
        let result = Digest::of("function", [function(self.parts, self.body).as_slice()]);
        Fingerprint::of_parts(Rule::Function, [self.method(), self.path(), Digest::of("query", [&[][..]]), result])
    }

    fn with_body(&self, rule: Rule, body: Digest) -> Fingerprint {
        let query = Digest::of("query", [self.query()]);
        Fingerprint::of_parts(rule, [self.method(), self.path(), query, body])
    }

    fn method(&self) -> Digest {
        Digest::of("method", [self.parts.method.as_str().as_bytes()])
    }

    fn path(&self) -> Digest {
        Digest::of("path", [self.uri.path().as_bytes()])
    }

    /// The query with its question mark, so that an empty query and none differ.
    fn query(&self) -> &[u8] {
        let path_and_query = self.uri.path_and_query().map_or("", http::uri::PathAndQuery::as_str);
        path_and_query.find('?').map_or(&[], |at| &path_and_query.as_bytes()[at..])
    }

    fn whole<const N: usize>(&self, rule: Rule, rest: [&[u8]; N]) -> Fingerprint {
        let start = [self.parts.method.as_str().as_bytes(), self.uri.path().as_bytes()];
        Fingerprint::of_whole(rule, start.into_iter().chain(rest))
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, num::u8::ANY, prop_assert_eq, proptest};

    use super::*;

    const FORM: &[u8] = b"--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--b--\r\n";

    fn request(method: &str, target: &str, (name, value): (&str, &str), body: &[u8]) -> (Parts, Bytes) {
        let request = http::Request::builder().method(method).uri(target).header(name, value).body(());
        (request.expect("a request").into_parts().0, Bytes::copy_from_slice(body))
    }

    fn fingerprint(method: &str, target: &str, header: &str, body: &[u8], policy: FingerprintRule) -> Fingerprint {
        let (parts, body) = request(method, target, ("x-any", header), body);
        Subject { uri: &parts.uri, parts: &parts, body: &body }.fingerprint(policy)
    }

    fn order(_: &Parts, _: &Bytes) -> Vec<u8> {
        b"order 17".to_vec()
    }

    proptest! {
        #[test]
        fn b16_headers_do_not_count(a in "[ -~]{0,20}", b in "[ -~]{0,20}", body in vec(ANY, 0..50)) {
            for policy in [FingerprintRule::Bytes, FingerprintRule::Json] {
                let [a, b] = [&a, &b].map(|header| fingerprint("POST", "/p?q=1", header, &body, policy));
                prop_assert_eq!(a, b);
            }
        }

        #[test]
        fn b13_nothing_can_move_from_one_part_to_another(text in "[a-z]{1,12}", one in 0..13_usize, other in 0..13_usize) {
            let cut_at = |at: usize| {
                let (query, body) = text.split_at(at.min(text.len()));
                fingerprint("POST", &format!("/p?{query}"), "", body.as_bytes(), FingerprintRule::Bytes)
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
            let json = |body: &str| fingerprint("POST", "/p", "", body.as_bytes(), FingerprintRule::Json);
            prop_assert_eq!(json(&forth), json(&back));
        }
    }

    /// Each golden value is the rule's number, then SHA-256 over the length-prefixed digests of the parts, then their starts.
    #[test]
    fn b20_every_rule_is_pinned() {
        let of = |body: &[u8], policy| fingerprint("POST", "/p?a=1", "", body, policy);
        let object = br#"{"b":2,"a":1}"#;
        let (form, body) = request("POST", "/p?a=1", ("content-type", "multipart/form-data; boundary=b"), FORM);
        let form = Subject { uri: &form.uri, parts: &form, body: &body }.by_form();
        for (fingerprint, golden) in [
            (
                of(object, FingerprintRule::Bytes),
                "055162ac60670ff938c538119656420cc89a013b92e7bcd60f662f0ead04108ebd1fd449bac7de392de639000c53ee65c0",
            ),
            (
                of(object, FingerprintRule::Json),
                "065b7a8f5c3796bae3a1aece830161685975a74afdfdeabf77bf2701b6c2aa248a1fd449bac7de392de639000ce151a62c",
            ),
            (
                of(b"no json", FingerprintRule::Json),
                "0629b2e1e4eebb756ddf96a731262778c80fdc17ac5e343c3588077fb1fb0053291fd449bac7de392de639000c532f68ea",
            ),
            (
                of(object, FingerprintRule::Custom(order)),
                "07555b5a623e67e828f88c87f4d3d51bc9c49533a00774fc64930b2285c81732db1fd449bac7de392d7f4a0323fc4d7c13",
            ),
            (
                form,
                "0820e8141fdfafcf427be8bc629d77e8b55a9894b53804bef3b21422feebe464fa1fd449bac7de392de639000cfadb7c62",
            ),
            (Fingerprint::of_message(b"payload"), "04231166dcdad55f6ea95e8cc2919482cb2add7456e0476ea88ec86ccc08d7fc00"),
            (Fingerprint::of_nothing(), "04d72451a558cd4b3608bed1426a1619856097a55dcb18cbf8db4d75fe3c9909fe"),
        ] {
            let stored = fingerprint.to_bytes();
            let hex = stored.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
            assert_eq!((hex.as_str(), Fingerprint::from_bytes(&stored)), (golden, Some(fingerprint)));
            assert_eq!(Fingerprint::from_bytes(&stored[1..]), None);
            assert_eq!(Fingerprint::from_bytes(&[&stored[..], b"1"].concat()), None);
        }
    }

    #[test]
    fn b20_the_rules_that_made_no_parts_still_compare() {
        let compare = |stored: &str, body: &[u8], rule| {
            let stored: Vec<_> = (0..stored.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&stored[at..at + 2], 16).expect("hex"))
                .collect();
            let (parts, body) = request("POST", "/p?a=1", ("x-any", ""), body);
            let subject = Subject { uri: &parts.uri, parts: &parts, body: &body };
            subject.compare(subject.fingerprint(rule), &stored, rule)
        };
        let (bytes, json, function) = (FingerprintRule::Bytes, FingerprintRule::Json, FingerprintRule::Custom(order));
        for (stored, body, rules) in [
            (
                "01e19a0078e849de75b396c9f9c26d75286ca4a906de39afbcd33858f726bc85cd",
                &br#"{"b":2,"a":1}"#[..],
                &[bytes, json, function][..],
            ),
            (
                "02765e86468788576aa17e6e3cb32bcaf33502b3623fb1fdf60fc2fa39246023b0",
                br#"{"a":1, "b":2}"#,
                &[bytes, json, function],
            ),
            ("0277a5b3a8654674352dfd0462c8d6c806e29a993540a814a85d5052c3765149e0", b"no json", &[json]),
            ("03f8be4a71faa14395682ca81797a172ae01ba55953bc4e369c5863798db28eb24", b"any", &[function]),
        ] {
            for &rule in rules {
                assert_eq!(compare(stored, body, rule), Comparison::Same, "{stored}");
                if !stored.starts_with("03") {
                    assert_eq!(compare(stored, b"x", rule), Comparison::Other(Differences::UNKNOWN), "{stored}");
                }
            }
        }
        let by_function = "03f8be4a71faa14395682ca81797a172ae01ba55953bc4e369c5863798db28eb24";
        assert_eq!(compare(by_function, b"any", bytes), Comparison::Unknown);
    }

    #[test]
    fn a_mismatch_names_the_parts_that_differ() {
        fn amount(_: &Parts, body: &Bytes) -> Vec<u8> {
            body.to_vec()
        }
        for (rule, named) in [
            (FingerprintRule::Bytes, "body"),
            (FingerprintRule::Json, "body"),
            (FingerprintRule::Custom(amount), "fingerprint"),
        ] {
            let of = |method, target, body: &[u8]| fingerprint(method, target, "", body, rule);
            let first = of("POST", "/p?a=1", b"1");
            let differs = |other: Fingerprint| first.differences(&other).names().collect::<Vec<_>>();
            assert!(differs(of("POST", "/p?a=1", b"1")).is_empty());
            assert_eq!(differs(of("PATCH", "/p?a=1", b"1")), ["method"]);
            assert_eq!(differs(of("POST", "/q?a=1", b"1")), ["path"]);
            assert_eq!(differs(of("PATCH", "/q?a=1", b"2")), ["method", "path", named]);
            let query: &[&str] = if named == "body" { &["query"] } else { &[] };
            assert_eq!(differs(of("POST", "/p?a=2", b"1")), query);
        }
    }

    #[test]
    fn b12_an_empty_query_and_none_are_two_requests() {
        let of = |target| fingerprint("POST", target, "", b"", FingerprintRule::Bytes);
        assert_ne!(of("/p"), of("/p?"));
        assert_ne!(of("/p?a=%41"), of("/p?a=A"));
        assert_ne!(of("/p?a=1&b=2"), of("/p?b=2&a=1"));
    }
}
