//! One table of keys, for the server and the client: which header lines are a key, and which one.
//! Both accept exactly these; the tests of each run the whole table.

/// The value of an `Idempotency-Key` header, and the key that it is, without quotes.
pub fn lines() -> Vec<(String, Option<String>)> {
    let longest = "k".repeat(255);
    let key = |line: &str, key: &str| (line.to_owned(), Some(key.to_owned()));
    let mut lines = vec![
        key("abc", "abc"),
        key("\"abc\"", "abc"),
        key("  abc \t", "abc"),
        key("  \"abc\" \t", "abc"),
        key("ABC", "ABC"),
        key("\"a b\"", "a b"),
        key("\" a b \"", " a b "),
        key("\"a,b\"", "a,b"),
        key("\"a;b\"", "a;b"),
        key("a\\b", "a\\b"),
        key("\"a\\\\b\"", "a\\b"),
        key("\"a\\\"b\"", "a\"b"),
        key("\"\\\"\"", "\""),
        key("\"\\\\\"", "\\"),
        key("!#$%&'()*+-./:<=>?@[]^_`{|}~", "!#$%&'()*+-./:<=>?@[]^_`{|}~"),
        key("?1", "?1"),
        key(&longest, &longest),
        key(&format!("\"{longest}\""), &longest),
        key(&format!("\"{}\"", "\\\\".repeat(255)), &"\\".repeat(255)),
    ];
    let others = [
        "",
        " ",
        "a b",
        "a,b",
        "a;b",
        "a\tb",
        "a\"b",
        "\u{e9}",
        "\"",
        "\"\\\"",
        "\"abc",
        "abc\"",
        "\"abc\"x",
        "\"\"\"",
        "\"a\\b\"",
        "\"a\\",
        "\"abc\";v=1",
        "\"a\", \"b\"",
    ];
    lines.extend(others.map(|line| (line.to_owned(), None)));
    lines.push((format!("{longest}k"), None));
    lines.extend(not_keys().into_iter().map(|characters| (quoted(&characters), None)));
    lines
}

/// Characters that are no key, however they are written.
pub fn not_keys() -> Vec<String> {
    let mut characters = ["", " ", "   ", "a\tb", "schl\u{fc}ssel", "\u{1f511}"].map(str::to_owned).to_vec();
    characters.push("k".repeat(256));
    characters
}

/// The key as a quoted string.
pub fn quoted(key: &str) -> String {
    format!("\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\""))
}
