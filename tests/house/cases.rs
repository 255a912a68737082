//! `tests/CASES.md` against the tests: every file and test that it names exists, every numbered test has a row.
//! A row's last column reads `FILE`, `FILE`: `bNN_…`; `FILE`: `bNN_…`; …

use std::collections::BTreeSet;

use super::tree::{Tree, assert_none};

const CASES: &str = "tests/CASES.md";

/// The rows: number and last column.
fn rows(text: &str) -> Vec<(&str, &str)> {
    let rows = text.lines().filter_map(|line| {
        let mut columns = line.strip_prefix('|')?.strip_suffix('|')?.split(" | ").map(str::trim);
        let number = columns.next()?;
        number.bytes().all(|byte| byte.is_ascii_digit()).then(|| (number, columns.last().unwrap_or_default()))
    });
    rows.collect()
}

/// What stands in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The paths that a name in a row means: a file, a folder, or all that begin with `NAME…`.
fn meant<'t>(tree: &'t Tree, name: &str) -> Vec<&'t str> {
    let all = [format!("tests/{name}"), name.to_owned()];
    let paths = tree.0.keys().map(String::as_str);
    let is_meant = |path: &&str| {
        all.iter().any(|name| match name.split_once('…') {
            Some((start, end)) => path.starts_with(start) && path.ends_with(end),
            None => path == name || path.starts_with(&format!("{name}/")),
        })
    };
    paths.filter(is_meant).collect()
}

fn is_test(name: &str) -> bool {
    !name.contains(['/', '.']) && name.starts_with('b') && name.ends_with('…')
}

/// Names in a row for which there is nothing.
fn missing(tree: &Tree) -> Vec<String> {
    let mut findings = Vec::new();
    for (number, named) in rows(&tree.0[CASES]) {
        for part in named.split(';') {
            let mut files: Vec<&str> = Vec::new();
            for name in quoted(part) {
                if is_test(name) {
                    let start = format!("fn {}", name.trim_end_matches('…'));
                    let without = files
                        .iter()
                        .filter(|file| !meant(tree, file).iter().any(|path| tree.0[*path].contains(&start)));
                    findings.extend(without.map(|file| format!("{CASES}, {number}: no {name} in {file}")));
                    if files.is_empty() {
                        findings.push(format!("{CASES}, {number}: {name} is in no file"));
                    }
                } else if meant(tree, name).is_empty() {
                    findings.push(format!("{CASES}, {number}: there is no {name}"));
                } else {
                    files.push(name);
                }
            }
        }
    }
    findings
}

/// Numbers in the names of tests that have no row.
fn without_a_row(tree: &Tree) -> Vec<String> {
    let rows: BTreeSet<&str> = rows(&tree.0[CASES]).into_iter().map(|(number, _)| number).collect();
    let mut findings = Vec::new();
    for (path, text) in tree.below("", ".rs").filter(|(path, _)| !path.starts_with("tests/house/")) {
        let functions = text.split("fn ").skip(1).filter_map(|rest| rest.split(['(', '<']).next());
        let file = path.rsplit('/').next().into_iter();
        for name in functions.chain(file) {
            let numbers = name.split('_').map_while(|part| part.strip_prefix('b'));
            let numbers = numbers.take_while(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()));
            let strangers = numbers.filter(|number| !rows.contains(number));
            findings.extend(strangers.map(|number| format!("{path}: {name}: {CASES} has no row {number}")));
        }
    }
    findings
}

#[test]
fn cases_names_only_what_exists() {
    let tree = Tree::read();
    assert!(rows(&tree.0[CASES]).len() > 50, "the rows are not read");
    assert_none(&missing(&tree));
}

#[test]
fn every_numbered_test_has_its_row() {
    assert_none(&without_a_row(&Tree::read()));
}

#[test]
fn a_row_for_nothing_is_found() {
    let found = |named: &str| {
        let row = format!("| number | what | the tests |\n|---|---|---|\n| 01 | A | {named} |\n");
        let tests =
            [("tests/a/one.rs", "fn b01_b02_x()"), ("tests/a/two.rs", "fn b01_y()"), ("c/src/z.rs", "fn b01_z()")];
        missing(&Tree::of(&[&tests[..], &[(CASES, &row)]].concat()))
    };
    for named in [
        "`a/one.rs`: `b01_…`",
        "`a/one.rs`: `b01_b02_…`; on both `a/one.rs`, `a/two.rs`: `b01_…`",
        "`a/two.rs`",
        "`a/t…`",
        "`a/….rs`",
        "`c/src`: `b01_…`",
        "`c/src/z.rs`: `b01_…`",
    ] {
        assert_none(&found(named));
    }
    for named in [
        "`a/three.rs`",
        "`one.rs`",
        "`a/x…`",
        "`a/one.rs`: `b03_…`",
        "`a/one.rs`, `a/two.rs`: `b01_b02_…`",
        "`a/one.rs`; `b01_…`",
        "`c/source`: `b01_…`",
    ] {
        assert!(!found(named).is_empty(), "{named}");
    }
}

#[test]
fn a_number_without_a_row_is_found() {
    let found = |name: &str| {
        let code = format!("async fn {name}() {{}}");
        without_a_row(&Tree::of(&[(CASES, "| 01 | A | `a.rs` |\n"), ("tests/a.rs", &code)])).len()
    };
    assert_eq!([found("b01_x"), found("body"), found("b2b"), found("b02_x"), found("b01_b02_x")], [0, 0, 0, 1, 1]);
    assert_eq!(without_a_row(&Tree::of(&[(CASES, ""), ("tests/ui/t/b03_x.rs", "")])).len(), 1);
}
