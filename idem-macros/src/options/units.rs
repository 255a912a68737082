//! Durations and sizes, as written in a string literal, to a number.
//! No tokens: the caller knows where the literal stands.

/// Why a value was refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It does not follow the grammar: integer then unit, once or more.
    Unreadable,
    /// The number does not fit into 64 bits.
    Huge,
}

/// The units of a retention, in milliseconds.
pub(crate) const LONG: &[(&str, u64)] = &[("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)];

/// The units of a wait and of a lease, in milliseconds.
pub(crate) const SHORT: &[(&str, u64)] = &[("h", 3_600_000), ("m", 60_000), ("ms", 1), ("s", 1_000)];

/// The units of a size, in bytes.
pub(crate) const BYTES: &[(&str, u64)] =
    &[("B", 1), ("KB", 1_000), ("KiB", 1 << 10), ("MB", 1_000_000), ("MiB", 1 << 20)];

/// The sum of `text`'s parts, such as `1d12h`, each an integer with one of `units`.
pub(crate) fn total(text: &str, units: &[(&str, u64)]) -> Result<u64, Fault> {
    let mut rest = text;
    let mut sum: u64 = 0;
    loop {
        let (number, after) = leading(rest, |c| c.is_ascii_digit());
        let (unit, after) = leading(after, |c| c.is_ascii_alphabetic());
        let (_, factor) = units.iter().find(|(name, _)| *name == unit).ok_or(Fault::Unreadable)?;
        if number.is_empty() {
            return Err(Fault::Unreadable);
        }
        let number: u64 = number.parse().map_err(|_| Fault::Huge)?;
        sum = number.checked_mul(*factor).and_then(|part| sum.checked_add(part)).ok_or(Fault::Huge)?;
        rest = after;
        if rest.is_empty() {
            return Ok(sum);
        }
    }
}

/// Splits `text` before the first character that is no `part`.
fn leading(text: &str, part: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !part(c)).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up() {
        assert_eq!(total("24h", LONG), Ok(86_400_000));
        assert_eq!(total("1d12h", LONG), Ok(129_600_000));
        assert_eq!(total("250ms", SHORT), Ok(250));
        assert_eq!(total("64KiB", BYTES), Ok(65_536));
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["", "24", "h", "24 h", "-1h", "1.5h", "24H", "1h ", "1h2", "²h", "1ms"] {
            assert_eq!(total(text, LONG), Err(Fault::Unreadable), "{text:?}");
        }
        assert_eq!(total("18446744073709551616s", LONG), Err(Fault::Huge));
        assert_eq!(total("18446744073709551615d", LONG), Err(Fault::Huge));
    }
}
