//! ARCHITECTURE.md and CONTRIBUTING.md against the tree: every path that they name exists.
//! And ARCHITECTURE.md names every folder of the runtime, and draws the arrows of the table in `folders.rs`.

use super::{
    folders::RUNTIME,
    tree::{Tree, assert_none},
};

const ARCHITECTURE: &str = "ARCHITECTURE.md";
const DOCUMENTS: [&str; 2] = [ARCHITECTURE, "CONTRIBUTING.md"];
const SOURCE: &str = "idem-runtime/src/";

/// Ends of names that are files'.
const ENDS: [&str; 7] = [".rs", ".md", ".toml", ".sql", ".in", ".stderr", ".svg"];

/// What a document names: in backticks, in a link, or as a word of a block.
fn named(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| c.is_whitespace() || "`()[]{},;:│├└─".contains(c));
    words.map(|word| word.trim_end_matches('.').split('#').next().unwrap_or_default())
}

/// A name that can only be a path of ours. `target/…` is made by cargo, `…` and capitals stand for anything.
fn is_path(word: &str) -> bool {
    let is_file = ENDS.iter().any(|end| word.ends_with(end) && word.len() > end.len());
    let is_folder = word.ends_with('/') && word.len() > 1;
    let is_test_command = word == "tests/run";
    let is_placeholder = word.contains(['…', '*', '<', '$', '"', '=']) || word.split(['/', '.']).any(is_capital);
    (is_file || is_folder || is_test_command)
        && !is_placeholder
        && !word.starts_with("target/")
        && !word.contains("//")
        && !word.starts_with('/')
}

/// `NAME` and `TOPIC`, but not `README.md`, which exists.
fn is_capital(part: &str) -> bool {
    ["NAME", "TOPIC", "DATABASE", "OPTION", "FILE"].contains(&part)
}

/// From the root, or as the end of a path.
fn exists(tree: &Tree, path: &str) -> bool {
    let path = path.trim_start_matches("./").trim_start_matches("../");
    let (within, at) = (format!("/{path}"), path.to_owned());
    tree.0.keys().any(|file| {
        if path.ends_with('/') {
            file.starts_with(&at) || file.contains(&within)
        } else {
            *file == at || file.ends_with(&within)
        }
    })
}

fn missing(tree: &Tree) -> Vec<String> {
    let mut findings = Vec::new();
    for document in DOCUMENTS {
        let text = tree.0.get(document).map_or("", String::as_str);
        let gone = named(text).filter(|word| is_path(word) && !exists(tree, word));
        findings.extend(gone.map(|path| format!("{document} names {path}, which does not exist")));
    }
    findings
}

/// The folders of the runtime that the architecture does not name.
fn unnamed(tree: &Tree, text: &str) -> Vec<String> {
    let mut folders: Vec<&str> = tree
        .below(SOURCE, "")
        .filter_map(|(path, _)| path[SOURCE.len()..].rsplit_once('/'))
        .map(|(at, _)| at)
        .collect();
    folders.dedup();
    let is_named = |folder: &str| {
        let name = folder.rsplit('/').next().unwrap_or_default();
        [format!("`{name}`"), format!("{name}/")].iter().any(|name| text.contains(name))
    };
    let strangers = folders.into_iter().filter(|folder| !is_named(folder));
    strangers.map(|folder| format!("{ARCHITECTURE} does not name the folder {folder}/")).collect()
}

/// The table of arrows: rows "| `FOLDER` | what it is | `USED`, `USED` |", under a head whose last column is "uses".
fn drawn(text: &str) -> Vec<(&str, Vec<&str>)> {
    let is_head = |line: &str| line.trim_end_matches([' ', '|']).ends_with(" uses");
    let rows = text.lines().skip_while(|line| !is_head(line)).skip(2).take_while(|line| line.starts_with('|'));
    let rows = rows.map(|row| {
        let columns: Vec<&str> = row.trim_matches('|').split('|').collect();
        (names(columns[0]).first().copied().unwrap_or_default(), names(columns[columns.len() - 1]))
    });
    rows.collect()
}

/// What stands in backticks.
fn names(column: &str) -> Vec<&str> {
    column.split('`').skip(1).step_by(2).map(|name| name.trim_end_matches('/')).collect()
}

/// Where the drawn arrows are not those of the table.
fn drawn_otherwise(text: &str) -> Vec<String> {
    let drawn = drawn(text);
    let mut findings = Vec::new();
    for (folder, used) in RUNTIME.iter().filter(|(folder, _)| *folder != "__private") {
        let mut arrows = drawn.iter().find(|(drawn, _)| drawn == folder).map_or(Vec::new(), |(_, used)| used.clone());
        let mut used = used.to_vec();
        arrows.sort_unstable();
        used.sort_unstable();
        if arrows != used {
            findings.push(format!("{ARCHITECTURE}: `{folder}` uses {arrows:?}, in tests/house/folders.rs {used:?}"));
        }
    }
    let strangers = drawn.iter().filter(|(drawn, _)| RUNTIME.iter().all(|(folder, _)| folder != drawn));
    findings.extend(strangers.map(|(drawn, _)| format!("{ARCHITECTURE}: there is no folder `{drawn}`")));
    findings
}

#[test]
fn documents_name_only_what_exists() {
    assert_none(&missing(&Tree::read()));
}

#[test]
fn the_architecture_is_the_codes() {
    let tree = Tree::read();
    if let Some(text) = tree.0.get(ARCHITECTURE) {
        assert_none(&[unnamed(&tree, text), drawn_otherwise(text)].concat());
    }
}

#[test]
fn a_path_that_does_not_exist_is_found() {
    let found = |text: &str| {
        let tree = [("tests/run", ""), ("idem-runtime/src/http/call.rs", ""), (ARCHITECTURE, text)];
        missing(&Tree::of(&tree)).len()
    };
    for text in ["`http/call.rs`", "`call.rs`", "[the trip](idem-runtime/src/http/call.rs#L1)", "http/", "`src/http/`"]
    {
        assert_eq!(found(text), 0, "{text}");
    }
    for text in ["`target/doc/`", "`tests/ui/TOPIC/NAME.rs`", "`tests/ui/….stderr`", "`/payments/`", "`http://a.b/c/`"]
    {
        assert_eq!(found(text), 0, "{text}");
    }
    for text in ["`http/gone.rs`", "gone.rs,", "[the trip](src/gone.md)", "│ gone/  a folder", "`all.rs`"] {
        assert_eq!(found(text), 1, "{text}");
    }
}

#[test]
fn a_folder_that_is_not_named_is_found() {
    let tree = Tree::of(&[("idem-runtime/src/http/call.rs", ""), ("idem-runtime/src/http/deep/a.rs", "")]);
    assert_none(&unnamed(&tree, "`http` and deep/"));
    assert_eq!(unnamed(&tree, "`http`, deep"), ["ARCHITECTURE.md does not name the folder http/deep/"]);
    assert_eq!(unnamed(&tree, "").len(), 2);
}

#[test]
fn another_arrow_is_found() {
    let rows = RUNTIME.iter().filter(|(folder, _)| *folder != "__private").map(|(folder, used)| {
        let used: Vec<_> = used.iter().map(|used| format!("`{used}`")).collect();
        format!("| `{folder}/` | what it is | {} |\n", used.join(", "))
    });
    let table = format!("Text\n\n| folder | what | uses |\n|---|---|---|\n{}\nMore\n", rows.collect::<String>());
    assert_none(&drawn_otherwise(&table));
    assert_eq!(drawn_otherwise(&table.replace("what it is | `model` |", "what it is | |")).len(), 1);
    assert_eq!(drawn_otherwise(&table.replace("`engine`, `app`, `http` |", "`engine`, `app` |")).len(), 2);
    assert_eq!(drawn_otherwise(&table.replace("| `messages/`", "| `letters/`")).len(), 2);
    assert_eq!(drawn_otherwise("").len(), RUNTIME.iter().filter(|(_, used)| !used.is_empty()).count() - 1);
}
