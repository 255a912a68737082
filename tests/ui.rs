//! Every misuse gives one error, at the user's token, that says what to write.
//! `.stderr` files are read too: one error each, but where axum's own must follow.

use std::{
    fs,
    path::{Path, PathBuf},
};

use idem_tests::tally;

/// The cases with more than one error, and why.
const MORE_THAN_ONE: &[(&str, usize)] = &[
    // Two mistakes of two kinds.
    ("b88_bad_option_and_half_a_body", 2),
    ("b88_bad_option_keeps_the_body", 2),
    // axum's `debug_handler` says it twice, without us too.
    ("b94_bad_extractor_under_debug_handler", 2),
    // axum's alone: it runs before us.
    ("b94_debug_handler_above", 2),
    // Four mistakes.
    ("consumer_several_at_once", 4),
    // Two mistakes: by value, and without its database, which rustc reports.
    ("external_attempt_by_value_bare", 2),
    // Five mistakes.
    ("several_at_once", 5),
    // Ours at the type, then axum's and its reason at the route.
    ("unsupported_connection", 3),
];

#[test]
fn each_misuse_has_its_error() {
    let cases = cases();
    assert!(!cases.is_empty(), "no ui cases were found");

    let trybuild = trybuild::TestCases::new();
    trybuild.compile_fail("ui/*/*.rs");
    drop(trybuild);
    for case in &cases {
        tally::ran("ui", name(case));
    }
}

#[test]
fn each_misuse_has_one_error() {
    let cases = cases();
    assert!(!cases.is_empty(), "no ui cases were found");

    for case in cases {
        let name = name(&case);
        let expected = MORE_THAN_ONE.iter().find(|(known, _)| *known == name).map_or(1, |(_, errors)| *errors);
        let report = fs::read_to_string(case.with_extension("stderr")).expect(name);
        assert_eq!(count(&report, "error"), expected, "errors in {name}.stderr");
        assert_eq!(count(&report, "warning"), 0, "warnings in {name}.stderr");
    }
}

#[test]
fn each_exception_is_a_case() {
    let names: Vec<_> = cases().iter().map(|case| name(case).to_owned()).collect();
    for (exception, _) in MORE_THAN_ONE {
        assert!(names.iter().any(|name| name == exception), "{exception} is no case");
    }
}

/// How many diagnostics of a level are in a report.
fn count(report: &str, level: &str) -> usize {
    report.lines().filter(|line| line.strip_prefix(level).is_some_and(|rest| rest.starts_with([':', '[']))).count()
}

fn cases() -> Vec<PathBuf> {
    let topics = entries(&Path::new(env!("CARGO_MANIFEST_DIR")).join("ui"));
    let topics = topics.into_iter().filter(|topic| topic.is_dir());
    let files = topics.flat_map(|topic| entries(&topic));
    files.filter(|file| file.extension().is_some_and(|end| end == "rs")).collect()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder of ui cases");
    let mut entries: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    entries.sort();
    entries
}

fn name(case: &Path) -> &str {
    case.file_stem().and_then(|stem| stem.to_str()).expect("a name in UTF-8")
}
