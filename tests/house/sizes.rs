//! No Rust file is longer than a reader follows, but data.
//! A file that is listed and short is a finding, too.

use super::tree::{Tree, assert_none};

const MOST: usize = 300;

/// Longer ones, and why: data.
const DATA: &[(&str, &str)] = &[];

fn too_long(tree: &Tree, data: &[(&str, &str)]) -> Vec<String> {
    let mut findings = Vec::new();
    for (path, text) in tree.below("", ".rs") {
        let (lines, listed) = (text.lines().count(), data.iter().any(|(file, _)| *file == path));
        if lines > MOST && !listed {
            findings.push(format!("{path} has {lines} lines, {MOST} is the most"));
        }
        if lines <= MOST && listed {
            findings.push(format!("{path} is short: take it off the list in tests/house/sizes.rs"));
        }
    }
    findings
}

/// Files that do not begin with their subject.
fn without_header(tree: &Tree) -> Vec<String> {
    let sources = tree.below("", ".rs").filter(|(path, _)| !path.starts_with("tests/ui/"));
    let bare = sources.filter(|(_, text)| !text.starts_with("//! "));
    bare.map(|(path, _)| format!("{path} does not begin with its subject (`//! …`)")).collect()
}

#[test]
fn no_file_is_longer_than_a_reader_follows() {
    assert_none(&too_long(&Tree::read(), DATA));
}

#[test]
fn every_file_says_its_subject() {
    assert_none(&without_header(&Tree::read()));
}

#[test]
fn a_long_file_is_found() {
    let (long, most) = ("\n".repeat(MOST + 1), "\n".repeat(MOST));
    let tree = Tree::of(&[("a.rs", &long), ("b.rs", &most), ("c.sql", &long)]);
    assert_eq!(too_long(&tree, &[]), ["a.rs has 301 lines, 300 is the most"]);
    assert_eq!(too_long(&tree, &[("a.rs", "data")]).len(), 0);
    assert_eq!(too_long(&tree, &[("a.rs", "data"), ("b.rs", "data")]).len(), 1);
}

#[test]
fn a_file_without_a_header_is_found() {
    let tree = Tree::of(&[("a.rs", "//! A.\n//! B.\n"), ("b.rs", "\n//! A.\n"), ("c.rs", ""), ("tests/ui/d/e.rs", "")]);
    assert_eq!(without_header(&tree).len(), 2);
}
