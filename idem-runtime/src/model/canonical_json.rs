//! The canonical form of JSON: the member order and white space of RFC 8785, but numbers as written.
//! RFC 8785 reads numbers as doubles, so 9007199254740992 and 9007199254740993 would be equal; here they differ.

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The deepest nesting that has a canonical form. Each level is parsed once more, so this also bounds the time.
const MAX_DEPTH: usize = 32;

/// Returns the canonical form of a JSON text; `None` if it is not JSON or nests deeper than 32 levels.
///
/// Repeated names are kept, in their order: two texts that differ in a repeated name are two requests.
pub(crate) fn json(text: &[u8]) -> Option<Vec<u8>> {
    let value: &RawValue = serde_json::from_slice(text).ok()?;
    let mut canonical = Vec::with_capacity(text.len());
    write(value, MAX_DEPTH, &mut canonical)?;
    Some(canonical)
}

fn write(value: &RawValue, levels: usize, out: &mut Vec<u8>) -> Option<()> {
    let text = value.get();
    match text.as_bytes().first()? {
        b'{' => {
            let Members(mut members) = serde_json::from_str(text).ok()?;
            // RFC 8785, section 3.2.3: sort by the UTF-16 code units of the names. The sort is stable, for repeated names.
            members.sort_by_cached_key(|(name, _)| utf16(name));
            out.push(b'{');
            for (at, (name, member)) in members.iter().enumerate() {
                separate(at, out);
                out.extend_from_slice(name.get().as_bytes());
                out.push(b':');
                write(member, levels.checked_sub(1)?, out)?;
            }
            out.push(b'}');
        }
        b'[' => {
            let items: Vec<&RawValue> = serde_json::from_str(text).ok()?;
            out.push(b'[');
            for (at, item) in items.into_iter().enumerate() {
                separate(at, out);
                write(item, levels.checked_sub(1)?, out)?;
            }
            out.push(b']');
        }
        _ => out.extend_from_slice(text.as_bytes()),
    }
    Some(())
}

fn utf16(name: &RawValue) -> Vec<u16> {
    serde_json::from_str::<String>(name.get()).unwrap_or_default().encode_utf16().collect()
}

fn separate(at: usize, out: &mut Vec<u8>) {
    if at > 0 {
        out.push(b',');
    }
}

/// The members of an object, including repeated names.
struct Members<'t>(Vec<(&'t RawValue, &'t RawValue)>);

impl<'t> Deserialize<'t> for Members<'t> {
    fn deserialize<D: Deserializer<'t>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'t> Visitor<'t> for InOrder {
            type Value = Members<'t>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(a: &str, b: &str) -> bool {
        let (a, b) = (json(a.as_bytes()), json(b.as_bytes()));
        assert!(a.is_some() && b.is_some());
        a == b
    }

    #[test]
    fn b11_only_member_order_and_white_space_are_equal() {
        assert!(same(
            r#"{"b":[{"y":1,"x":2}],"a":{"d":3,"c":4}}"#,
            r#" { "a" : {"c":4, "d":3}, "b":[ {"x":2,"y":1} ]}"#
        ));
        for (a, b) in [
            ("[1,2]", "[2,1]"),
            (r#"{"a":null}"#, "{}"),
            ("1", "1.0"),
            ("9007199254740992", "9007199254740993"),
            (r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
            (r#"{"a":1,"a":2}"#, r#"{"a":2,"a":1}"#),
            ("1e2", "100"),
            (r#""a""#, r#""\u0061""#),
            (r#"{"a":1}"#, r#"{"\u0061":1}"#),
        ] {
            assert!(!same(a, b), "{a} and {b}");
        }
    }

    #[test]
    fn b11_what_is_not_json_has_no_canonical_form() {
        for text in ["", "{", "\u{feff}{}", "{}x", "01"] {
            assert_eq!(json(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn names_sort_by_utf_16() {
        // Part of the example in RFC 8785, section 3.2.3: U+1F600 (a surrogate pair) before U+FB33.
        let sorted = json("{\"\u{fb33}\":1,\"\u{1f600}\":2,\"\u{20ac}\":3,\"1\":4}".as_bytes());
        let expected = "{\"1\":4,\"\u{20ac}\":3,\"\u{1f600}\":2,\"\u{fb33}\":1}";
        assert_eq!(sorted.as_deref(), Some(expected.as_bytes()));
    }

    #[test]
    fn nesting_is_bounded() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        assert_eq!(json(deep.as_bytes()), None);
    }
}
