//! Plain English in what people read: `*.md`, `///`, `//!` and compile errors. Words that a reader would have to translate fail.
//! Code in backticks and in blocks is left out. `cargo test -p idem-tests --test house plain_english` lists the findings.

use super::tree::{Tree, assert_none};

/// Where a phrase may stand: path (or the beginning of one), phrase, reason.
const ALLOWED: &[(&str, &str, &str)] = &[];

/// A phrase, and what to write.
const FORBIDDEN: &[(&str, &str)] = &[
    ("whoever", "a client that, everyone who"),
    ("whom", "name the person or part, or begin a sentence"),
    ("became of", "outcome"),
    ("becomes of", "outcome"),
    ("came of", "outcome"),
    ("comes of", "outcome"),
    ("is told", "gets, returns"),
    ("are told", "get, return"),
    ("was told", "got"),
    ("be told", "get"),
    ("told of", "notified of"),
    ("told apart", "distinguished"),
    ("in hand", "in flight"),
    ("by hand", "manually"),
    ("of its own", "its own, separate"),
    ("of their own", "their own, separate"),
    ("of one's own", "your own"),
    ("of your own", "your own"),
    ("of yours", "your"),
    ("is none", "is not one; say what it is not"),
    ("are none", "are not"),
    ("twin", "duplicate, in-flight duplicate"),
    ("twins", "duplicates"),
    ("elsewhere", "in another system, outside the database"),
    ("lend", "borrow"),
    ("lends", "borrows"),
    ("lent", "borrowed, taken by reference"),
    ("spelt", "spelled"),
    ("misspelt", "misspelled"),
    ("whole number", "integer"),
    ("whole numbers", "integers"),
    ("length of time", "duration"),
    ("lengths of time", "durations"),
    ("alarm on", "alert on"),
    ("dead attempt", "stalled attempt"),
    ("dead attempts", "stalled attempts"),
    ("as ever", "as usual, unchanged"),
    ("in so many words", "explicitly"),
    ("burn", "consume"),
    ("burns", "consumes"),
    ("nobody but", "only"),
    ("none but", "only"),
    ("lies in", "is stored in"),
    ("lie in", "be stored in"),
];

/// What stands before "answer" where it is a noun: write "response".
const BEFORE_ANSWER: &[&str] = &[
    "a",
    "an",
    "the",
    "its",
    "his",
    "their",
    "whose",
    "this",
    "that",
    "each",
    "every",
    "one",
    "no",
    "of",
    "first",
    "stored",
    "same",
    "such",
    "whole",
    "handler's",
    "server's",
    "own",
    "final",
    "second",
    "honest",
];

/// A word of a text, and its line. An empty word is the end of a sentence or of a cell.
type Word = (String, usize);

/// The words that people read in a file.
fn words(path: &str, text: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut is_code = false;
    for (at, line) in text.lines().enumerate() {
        let Some(line) = read(path, line) else {
            if !words.is_empty() {
                words.push((String::new(), at));
            }
            continue;
        };
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            // Every second part is between backticks.
            for (part, plain) in line.split('`').enumerate() {
                if part % 2 == 0 { take(plain, at + 1, &mut words) } else { words.push(("`".to_owned(), at + 1)) }
            }
        }
    }
    words
}

/// What people read of a line.
fn read<'l>(path: &str, line: &'l str) -> Option<&'l str> {
    if path.ends_with(".rs") {
        let line = line.trim_start();
        return line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
    }
    (!(path.ends_with(".stderr") && is_source(line))).then_some(line)
}

/// Whether a line of a compile error shows a path (`--> ui/a.rs:1:2`, `::: ui/a.rs:1:2`) or a line of the code (`12 | …`).
fn is_source(line: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    line.trim_start().starts_with("-->")
        || line.trim_start().starts_with(":::")
        || line.split_once('|').is_some_and(|(before, _)| is_number(before.trim()))
}

fn take(plain: &str, line: usize, words: &mut Vec<Word>) {
    for word in plain.split_whitespace() {
        let is_part = |c: char| c.is_alphanumeric() || c == '\'';
        words.extend(
            word.split(|c| !is_part(c)).filter(|word| !word.is_empty()).map(|word| (word.to_lowercase(), line)),
        );
        if word.ends_with(['.', ';', ':', '|', ',']) {
            words.push((String::new(), line));
        }
    }
}

/// The forbidden phrases of the tree.
fn findings(tree: &Tree, allowed: &[(&str, &str, &str)]) -> Vec<String> {
    let mut findings = Vec::new();
    let files = [".md", ".rs", ".stderr"].into_iter().flat_map(|end| tree.below("", end));
    for (path, text) in files {
        let is_allowed = |phrase: &str| allowed.iter().any(|(at, known, _)| path.starts_with(at) && *known == phrase);
        let words = words(path, text);
        for (at, (_, line)) in words.iter().enumerate() {
            for (phrase, instead) in FORBIDDEN {
                if begins_with(&words[at..], phrase) && !is_allowed(phrase) {
                    findings.push(format!("{path}:{line}: \"{phrase}\": write {instead}"));
                }
            }
            let is_answer = at > 0
                && ["answer", "answers"].contains(&words[at].0.as_str())
                && BEFORE_ANSWER.contains(&words[at - 1].0.as_str());
            if is_answer && !is_allowed("answer") {
                findings.push(format!("{path}:{line}: \"{} {}\": write response", words[at - 1].0, words[at].0));
            }
        }
    }
    findings
}

fn begins_with(words: &[Word], phrase: &str) -> bool {
    let mut words = words.iter().map(|(word, _)| word.as_str());
    phrase.split(' ').all(|expected| words.next() == Some(expected))
}

/// What is allowed and does not occur.
fn needless(tree: &Tree, allowed: &[(&str, &str, &str)]) -> Vec<String> {
    let is_needed = |at: usize| {
        let rest: Vec<_> = allowed.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, row)| *row).collect();
        findings(tree, &rest).len() > findings(tree, allowed).len()
    };
    let needless = (0..allowed.len()).filter(|at| !is_needed(*at));
    needless.map(|at| format!("{:?} need not be allowed", allowed[at])).collect()
}

#[test]
fn plain_english() {
    let tree = Tree::read();
    assert_none(&findings(&tree, ALLOWED));
    assert_none(&needless(&tree, ALLOWED));
}

#[test]
fn a_forbidden_word_is_found() {
    let found = |path: &str, text: &str| findings(&Tree::of(&[(path, text)]), &[]);
    for (path, text) in [
        ("a.md", "A client is\ntold it."),
        ("a.md", "Twins run."),
        ("a.md", "| 1 | Elsewhere |"),
        ("a.md", "# Of yours"),
        ("a.md", "The answer is stored"),
        ("a.rs", "/// Whoever.\nfn f() {}"),
        ("a.rs", "    //! of its\n    //! own"),
        ("a.rs", "/// ```\n/// let twin = 1;\n/// ```\n/// A twin"),
        ("a.stderr", "error: an option is spelt so"),
        ("a.stderr", "  | ^^^ a whole number"),
    ] {
        assert_eq!(found(path, text).len(), 1, "{text}: {:?}", found(path, text));
    }
    for (path, text) in [
        ("a.md", "In: hand. This is; told. Answer it. It answers."),
        ("a.md", "`twin`\n```rust\n// elsewhere\n```"),
        ("a.rs", "// whoever\nlet whom = \"elsewhere\";"),
        ("a.rs", "/// What is\nfn f() {}\n/// told"),
        ("a.stderr", "12 | /// elsewhere"),
        ("a.stderr", "  --> ui/misspelt_option.rs:1:2"),
        ("a.stderr", " ::: ui/pool_lent.rs:1:2"),
        ("a.sql", "-- elsewhere"),
    ] {
        assert_none(&found(path, text));
    }
    assert_eq!(found("a.md", "One.\n\nTwo twins"), ["a.md:3: \"twins\": write duplicates"]);
}

#[test]
fn what_is_allowed_must_occur() {
    let tree = Tree::of(&[("a/b.md", "Elsewhere")]);
    let row = ("a/", "elsewhere", "an example");
    assert_none(&findings(&tree, &[row]));
    assert_none(&needless(&tree, &[row]));
    assert_eq!((findings(&tree, &[("b/", "elsewhere", "")]).len(), needless(&tree, &[row, row]).len()), (1, 2));
}
