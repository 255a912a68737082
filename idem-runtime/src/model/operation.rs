//! The names of operations, which are stored: the rule for names that an application passes at run time.
//! The attribute checks its own names by the same rule when it expands.

/// Whether a name can be stored as an operation: 1 to 128 visible ASCII characters.
pub(crate) fn is_operation(name: &str) -> bool {
    (1..=128).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Refuses a name that cannot be stored as an operation.
#[track_caller]
pub(crate) fn check_operation(name: &str) {
    assert!(
        is_operation(name),
        "invalid operation {name:?}: expected 1 to 128 visible ASCII characters, such as \"payment\""
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_1_to_128_visible_ascii_characters() {
        for name in ["a", "create_charge", "pay/v2:~!", &"x".repeat(128)] {
            assert!(is_operation(name), "{name}");
        }
        for name in ["", " ", "two words", "line\n", "é", "tab\t", "\u{7f}", &"x".repeat(129)] {
            assert!(!is_operation(name), "{name:?}");
        }
    }

    #[test]
    #[should_panic(expected = "invalid operation \"two words\": expected 1 to 128 visible ASCII characters")]
    fn a_refusal_names_the_operation() {
        check_operation("two words");
    }
}
