//! Which folder of a crate may use which: a row may name only rows above it, so there is no circle.
//! The picture in ARCHITECTURE.md is this table.

use super::{
    code,
    tree::{Tree, assert_none},
};

/// A folder, or a file beside `lib.rs`, and what it may use.
type Row = (&'static str, &'static [&'static str]);

pub const RUNTIME: &[Row] = &[
    ("model", &[]),
    ("backend", &["model"]),
    ("engine", &["model", "backend"]),
    ("app", &["model", "backend", "engine"]),
    ("http", &["model", "backend", "engine", "app"]),
    ("messages", &["model", "backend", "engine", "app"]),
    ("recovery", &["model", "backend", "engine", "app", "http"]),
    ("openapi", &["model", "backend", "engine", "app", "http"]),
    // What the expansion names. rustc puts an exported macro, `__documented` of `openapi`, at the crate's root.
    ("__private", &["model", "backend", "engine", "app", "http", "messages", "recovery", "openapi", "__documented"]),
];

pub const MACROS: &[Row] = &[
    ("errors", &[]),
    ("options", &["errors"]),
    ("item", &["errors"]),
    ("plan", &["errors", "options", "item"]),
    ("expand", &["options", "item", "plan"]),
];

/// The crate's own file declares and exports everything.
const ROOT: &str = "lib.rs";

/// The arrows in the code that the table does not have.
fn strangers(tree: &Tree, source: &str, table: &[Row]) -> Vec<String> {
    let mut findings = Vec::new();
    for (path, text) in tree.below(source, ".rs") {
        let inner = &path[source.len()..];
        if inner == ROOT {
            continue;
        }
        let module = module_of(inner);
        let Some((_, allowed)) = table.iter().find(|(folder, _)| *folder == module[0]) else {
            findings.push(format!("{path}: `{}` is not in the table of tests/house/folders.rs", module[0]));
            continue;
        };
        for used in code::paths(&code::tokens(path, text), &module) {
            let to = used.first().map_or("*", String::as_str);
            if to != module[0] && !allowed.contains(&to) {
                findings.push(format!("{path}: `{}` must not use `{}`", module[0], used.join("::")));
            }
        }
    }
    let folders = table.iter().filter(|(folder, _)| {
        !tree.has_folder(&format!("{source}{folder}")) && !tree.has(&format!("{source}{folder}.rs"))
    });
    findings.extend(folders.map(|(folder, _)| format!("{source}{folder} is in the table and does not exist")));
    findings
}

/// `http/call.rs` is `http::call`, `http/mod.rs` is `http`.
fn module_of(inner: &str) -> Vec<String> {
    let module = inner.trim_end_matches(".rs").trim_end_matches("/mod");
    module.split('/').map(str::to_owned).collect()
}

#[test]
fn each_folder_of_the_runtime_uses_only_what_is_below_it() {
    assert_none(&strangers(&Tree::read(), "idem-runtime/src/", RUNTIME));
}

#[test]
fn each_folder_of_the_macros_uses_only_what_is_below_it() {
    assert_none(&strangers(&Tree::read(), "idem-macros/src/", MACROS));
}

#[test]
fn the_tables_have_no_circle() {
    for table in [RUNTIME, MACROS] {
        for (at, (folder, used)) in table.iter().enumerate() {
            for used in *used {
                let is_macro = used.starts_with("__");
                assert!(
                    is_macro || table[..at].iter().any(|(above, _)| above == used),
                    "{folder} uses {used}, which is not above it"
                );
            }
        }
    }
}

#[test]
fn an_arrow_that_is_not_in_the_table_is_found() {
    const TABLE: &[Row] = &[("model", &[]), ("app", &["model"])];
    let found = |inner: &str, text: &str| {
        let rest = [("s/lib.rs", "use crate::app::A; mod app; mod model;"), ("s/app/b.rs", ""), ("s/model/b.rs", "")];
        let inner = format!("s/{inner}");
        strangers(&Tree::of(&[&rest[..], &[(&inner, text)]].concat()), "s/", TABLE)
    };
    for (inner, text) in [
        ("model/mod.rs", "use crate::app::A;"),
        ("model/mod.rs", "use crate::{model::{B, C}, app::{self}};"),
        ("model/mod.rs", "use super::app;"),
        ("model/deep/mod.rs", "use super::super::app::A;"),
        ("model/deep.rs", "use super::{b, super::app::A};"),
        ("model/mod.rs", "fn f() { crate::app::g::<u8>() }"),
        ("model/mod.rs", "fn f() { format!(\"{}\", crate::app::A) }"),
        ("model/mod.rs", "mod tests { use super::super::app::A; }"),
        // By the root's names everything could be reached.
        ("model/mod.rs", "use crate::Idempotency;"),
        ("app/mod.rs", "use crate::*;"),
        ("other/mod.rs", ""),
    ] {
        assert_eq!(found(inner, text).len(), 1, "{inner}: {text}: {:?}", found(inner, text));
    }
    for (inner, text) in [
        ("app/mod.rs", "use crate::{model::{self, deep::*}, app::A}; use super::model;"),
        ("app/deep.rs", "use super::b; mod tests { use super::*; use super::super::b; }"),
        ("model/mod.rs", "/// [`A`](crate::app::A)\nfn f() {} // crate::app::A\nconst S: &str = \"crate::app::A\";"),
        ("model/mod.rs", "macro_rules! m { () => { $crate::app::A } } pub(crate) fn f() {}"),
    ] {
        assert_none(&found(inner, text));
    }
    let missing = strangers(&Tree::of(&[("s/app/mod.rs", "")]), "s/", TABLE);
    assert_eq!(missing, ["s/model is in the table and does not exist"]);
}
