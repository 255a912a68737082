//! No file is forgotten: every Rust file is reached from a target that cargo builds, every other test file from a test.
//! An unlisted test would never run, and nobody would notice.

use std::collections::BTreeSet;

use super::{
    code::{self, Module},
    tree::{Tree, assert_none, folder_of, normal},
};

/// Test files that no code includes, and who reads them.
const READ_BY_OTHERS: &[(&str, &str)] =
    &[("tests/CASES.md", "people, and cases.rs"), ("tests/run", "people; it is the test command")];

/// The files that targets consist of, with what they include.
fn reached(tree: &Tree) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<(String, bool)> = roots(tree).into_iter().map(|root| (root, true)).collect();
    while let Some((path, is_root)) = open.pop() {
        let Some(text) = tree.0.get(&path) else { continue };
        if !reached.insert(path.clone()) || !path.ends_with(".rs") {
            continue;
        }
        let tokens = code::tokens(&path, text);
        let included = code::included(&tokens).into_iter();
        open.extend(included.map(|file| (normal(&format!("{}/{file}", folder_of(&path))), false)));
        for module in code::modules(&tokens) {
            let files = files_of(&path, is_root, &module);
            open.extend(files.into_iter().filter(|file| tree.has(file)).map(|file| (file, false)));
        }
    }
    reached
}

/// What cargo builds by itself, what a `Cargo.toml` lists, and the ui cases, which `ui.rs` finds.
fn roots(tree: &Tree) -> Vec<String> {
    let mut roots = Vec::new();
    for (manifest, text) in tree.below("", "Cargo.toml") {
        let at = |file: &str| normal(&format!("{}/{file}", folder_of(manifest)));
        let listed = text.lines().filter_map(|line| line.strip_prefix("path = \"")?.strip_suffix('"'));
        roots.extend(listed.chain(["src/lib.rs", "src/main.rs"]).map(at));
        roots.extend(tree.below(&at("src/bin/"), ".rs").map(|(path, _)| path.to_owned()));
    }
    roots.extend(ui_cases(tree, ".rs"));
    roots
}

/// `tests/ui/TOPIC/NAME.rs`, and nothing above or below.
fn ui_cases(tree: &Tree, end: &str) -> BTreeSet<String> {
    let files = tree.below("tests/ui/", end).filter(|(path, _)| path.split('/').count() == 4);
    files.map(|(path, _)| path.to_owned()).collect()
}

/// Where rustc looks for a module that a file declares.
fn files_of(file: &str, is_root: bool, module: &Module) -> Vec<String> {
    let stem = file.trim_end_matches(".rs");
    let has_children_beside = is_root || stem.ends_with("/mod");
    // `path` counts from the file's own folder, unless inline modules are around.
    let mut folder = folder_of(file).to_owned();
    if !has_children_beside && (module.path.is_none() || !module.around.is_empty()) {
        stem.clone_into(&mut folder);
    }
    for (name, path) in &module.around {
        folder = format!("{folder}/{}", path.as_ref().unwrap_or(name));
    }
    let inner = match &module.path {
        Some(path) => vec![path.clone()],
        None => vec![format!("{}.rs", module.name), format!("{}/mod.rs", module.name)],
    };
    inner.iter().map(|inner| normal(&format!("{folder}/{inner}"))).collect()
}

fn forgotten(tree: &Tree) -> Vec<String> {
    let reached = reached(tree);
    let mut findings = Vec::new();
    for path in tree.0.keys().filter(|path| !reached.contains(*path)) {
        if path.ends_with(".rs") {
            findings.push(format!("{path} is in no target: declare it (`mod`), or list it in a Cargo.toml"));
        } else if path.starts_with("tests/")
            && !["Cargo.toml", ".stderr"].iter().any(|end| path.ends_with(end))
            && !READ_BY_OTHERS.iter().any(|(known, _)| known == path)
        {
            findings.push(format!("{path}: no test includes it"));
        }
    }
    let known = READ_BY_OTHERS.iter().filter(|(known, _)| !tree.has(known));
    findings.extend(known.map(|(known, _)| format!("{known} is listed in tests/house/files.rs and does not exist")));
    findings
}

/// Each ui case with its report, each report with its case.
fn unpaired(tree: &Tree) -> Vec<String> {
    let without_end = |paths: BTreeSet<String>, end: &str| -> BTreeSet<String> {
        paths.iter().map(|path| path.trim_end_matches(end).to_owned()).collect()
    };
    let cases = without_end(ui_cases(tree, ".rs"), ".rs");
    let reports =
        tree.below("tests/", ".stderr").map(|(path, _)| path.trim_end_matches(".stderr").to_owned()).collect();
    let no_report = cases.difference(&reports).map(|case| format!("{case}.rs has no .stderr"));
    no_report.chain(reports.difference(&cases).map(|report| format!("{report}.stderr has no .rs"))).collect()
}

/// Packages that `--workspace` leaves out.
fn no_members(tree: &Tree) -> Vec<String> {
    let workspace = tree.0.get("Cargo.toml").map_or("", String::as_str);
    let manifests = tree.below("", "/Cargo.toml").map(|(path, _)| folder_of(path));
    let strangers = manifests.filter(|package| !workspace.contains(&format!("    \"{package}\",\n")));
    strangers.map(|package| format!("{package} is no member of the workspace")).collect()
}

/// Each database has every topic: those are listed once, in a file that each database's own includes.
fn without_topics(tree: &Tree) -> Vec<String> {
    let databases = tree.below("tests/conformance/", ".rs").filter(|(path, _)| path.split('/').count() == 3);
    let bare = databases.filter(|(path, text)| {
        !code::modules(&code::tokens(path, text)).iter().any(|module| module.path.as_deref() == Some("topics/mod.rs"))
    });
    bare.map(|(path, _)| format!("{path} does not include topics/mod.rs")).collect()
}

#[test]
fn every_file_is_reached() {
    assert_none(&forgotten(&Tree::read()));
}

#[test]
fn every_ui_case_has_its_report() {
    assert_none(&unpaired(&Tree::read()));
}

#[test]
fn every_package_is_a_member() {
    assert_none(&no_members(&Tree::read()));
}

#[test]
fn every_database_has_every_topic() {
    let tree = Tree::read();
    assert!(tree.has("tests/conformance/postgres.rs"));
    assert_none(&without_topics(&tree));
}

/// A tree in which everything is reached, in every way there is.
fn sound() -> Vec<(&'static str, &'static str)> {
    vec![
        ("Cargo.toml", "members = [\n    \"tests\",\n]\n"),
        ("tests/Cargo.toml", "[[test]]\nname = \"a\"\npath = \"a.rs\"\n[[test]]\npath = \"c.rs\"\n"),
        ("tests/CASES.md", ""),
        ("tests/run", ""),
        ("tests/a.rs", "mod a { #[cfg(x)] pub mod b; mod deep; } const S: &str = include_str!(\"data.json\");"),
        ("tests/data.json", ""),
        ("tests/a/b.rs", "#[path = \"twice.rs\"] mod twice; mod below;"),
        ("tests/a/twice.rs", ""),
        ("tests/a/b/below.rs", ""),
        ("tests/a/deep/mod.rs", "mod inner;"),
        ("tests/a/deep/inner.rs", ""),
        ("tests/c.rs", "#[path = \".\"] mod one { pub mod beside; }"),
        ("tests/beside.rs", ""),
        ("tests/ui/common.rs", ""),
        ("tests/ui/topic/case.rs", "#[path = \"../common.rs\"] mod common;"),
        ("tests/ui/topic/case.stderr", ""),
    ]
}

#[test]
fn a_file_that_nothing_lists_is_found() {
    assert_none(&forgotten(&Tree::of(&sound())));
    for stranger in
        ["tests/d.rs", "tests/a/d.rs", "tests/ui/d.rs", "tests/ui/topic/deep/d.rs", "tests/d.json", "s/d.rs"]
    {
        let found = forgotten(&Tree::of(&[&sound()[..], &[(stranger, "")]].concat()));
        assert!(found.len() == 1 && found[0].starts_with(stranger), "{stranger}: {found:?}");
    }
    // And what is declared no more.
    for (file, lost) in [("tests/a.rs", 6), ("tests/a/b.rs", 2), ("tests/Cargo.toml", 9)] {
        let tree: Vec<_> =
            sound().into_iter().map(|(path, text)| (path, if path == file { "" } else { text })).collect();
        assert_eq!(forgotten(&Tree::of(&tree)).len(), lost, "{file}");
    }
}

#[test]
fn a_case_without_its_report_is_found() {
    assert_none(&unpaired(&Tree::of(&sound())));
    for stranger in ["tests/ui/topic/d.rs", "tests/ui/topic/d.stderr", "tests/ui/d.stderr", "tests/d.stderr"] {
        assert_eq!(unpaired(&Tree::of(&[&sound()[..], &[(stranger, "")]].concat())).len(), 1, "{stranger}");
    }
}

#[test]
fn a_package_that_is_no_member_is_found() {
    assert_none(&no_members(&Tree::of(&sound())));
    let tree = Tree::of(&[&sound()[..], &[("tests/lints/Cargo.toml", "")]].concat());
    assert_eq!(no_members(&tree), ["tests/lints is no member of the workspace"]);
}

#[test]
fn a_database_without_the_topics_is_found() {
    let topics = "#[path = \"topics/mod.rs\"]\nmod topics;";
    let tree = [("tests/conformance/one.rs", topics), ("tests/conformance/one/own.rs", "")];
    assert_none(&without_topics(&Tree::of(&tree)));
    let tree = [&tree[..], &[("tests/conformance/two.rs", "mod own;")]].concat();
    assert_eq!(without_topics(&Tree::of(&tree)), ["tests/conformance/two.rs does not include topics/mod.rs"]);
}
