//! The outcomes of requests: what the runtime emits, the table of the guide and the tests are one list.
//! The labels are read off the sources, so a new one is a finding until it is documented and tested.

use std::collections::BTreeSet;

use super::tree::{Tree, assert_none};

const KINDS: &str = "idem-runtime/src/app/telemetry.rs";
const CODES: &str = "idem-runtime/src/app/problem.rs";
const CRATE: &str = "idem-runtime/src/lib.rs";
const GUIDE: &str = "guide/src/operating.md";

fn text<'t>(tree: &'t Tree, path: &str) -> &'t str {
    tree.0.get(path).map_or("", String::as_str)
}

/// The string of a line that is nothing but `"label",` or ends in `=> "label",`.
fn label(line: &str) -> Option<&str> {
    let before = line.trim().strip_suffix("\",")?;
    let (start, label) = before.rsplit_once('"')?;
    let is_label = !label.is_empty() && label.bytes().all(|byte| byte == b'-' || byte.is_ascii_lowercase());
    (is_label && (start.is_empty() || start.ends_with("=> "))).then_some(label)
}

fn emitted<'t>(tree: &'t Tree, path: &str) -> BTreeSet<&'t str> {
    text(tree, path).lines().filter_map(label).collect()
}

/// What stands in backticks in the first column of the guide's table.
fn documented(tree: &Tree) -> BTreeSet<&str> {
    let lines = text(tree, GUIDE).lines().skip_while(|line| !line.starts_with("| outcome |")).skip(2);
    let rows = lines.take_while(|line| line.starts_with('|')).filter_map(|line| line.split('|').nth(1));
    rows.flat_map(|column| column.split('`').skip(1).step_by(2)).collect()
}

/// Whether a test names the label, as a string or in the text of an event.
fn is_tested(tree: &Tree, label: &str) -> bool {
    let (string, event) = (format!("\"{label}\""), format!("\\\"{label}\\\""));
    let mut tests = tree.below("tests/", ".rs").filter(|(path, _)| !path.starts_with("tests/house/"));
    tests.any(|(_, text)| text.contains(&string) || text.contains(&event))
}

fn astray(tree: &Tree) -> Vec<String> {
    let (kinds, documented) = (emitted(tree, KINDS), documented(tree));
    let emitted: BTreeSet<_> = kinds.union(&emitted(tree, CODES)).copied().collect();
    let undocumented = emitted.difference(&documented).map(|label| format!("{GUIDE} has no row for {label}"));
    let never = documented.difference(&emitted).map(|label| format!("{GUIDE} has a row for {label}, never emitted"));
    let unnamed = kinds.iter().filter(|label| !text(tree, CRATE).contains(&format!("`{label}`")));
    let unnamed = unnamed.map(|label| format!("{CRATE} does not name {label}"));
    let untested = emitted.iter().filter(|label| !is_tested(tree, label));
    let untested = untested.map(|label| format!("no test names {label}"));
    undocumented.chain(never).chain(unnamed).chain(untested).collect()
}

#[test]
fn outcomes_are_emitted_documented_and_tested() {
    let tree = Tree::read();
    assert!(emitted(&tree, KINDS).contains("stored") && emitted(&tree, CODES).contains("in-progress"));
    assert_none(&astray(&tree));
}

#[test]
fn an_outcome_that_is_not_in_all_three_is_found() {
    let kinds = "Self::Stored => \"stored\",\nSelf::New => \"new\",\nSelf::Problem(code) => code.as_str(),\n";
    let codes = "                \"in-progress\",\n                \"A title\",\n";
    let guide = "| outcome | meaning |\n|---|---|\n| `stored`, `gone` | `no` |\n| `in-progress` | |\n\n| `else` |";
    let tests = "assert(\"stored\"); assert(\"outcome=\\\"in-progress\\\"\"); assert(\"gone\")";
    let tree =
        Tree::of(&[(KINDS, kinds), (CODES, codes), (GUIDE, guide), (CRATE, "`stored`"), ("tests/logs.rs", tests)]);
    assert_eq!(
        astray(&tree),
        [
            "guide/src/operating.md has no row for new",
            "guide/src/operating.md has a row for gone, never emitted",
            "idem-runtime/src/lib.rs does not name new",
            "no test names new",
        ]
    );
}
