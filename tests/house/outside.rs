//! Where the runtime may name axum and sqlx: in the folders that are about them, and in the files listed here, with the reason.
//! A file that is listed and does not need it is a finding, too.

use super::{
    code,
    tree::{Tree, assert_none},
};

struct Crate {
    name: &'static str,
    folders: &'static [&'static str],
    /// Others, and why.
    files: &'static [(&'static str, &'static str)],
}

const SOURCE: &str = "idem-runtime/src/";

const CRATES: [Crate; 2] = [
    Crate {
        name: "axum",
        folders: &["http/", "openapi/", "__private.rs"],
        files: &[
            ("app/builder.rs", "the application's renderer of problems returns a response"),
            ("app/in_task.rs", "the hook wraps the future of a response"),
            ("app/mod.rs", "the same renderer, held"),
            ("app/problem.rs", "a problem is a response"),
            ("recovery/reconcile.rs", "the verdict of a reconciler is a response"),
        ],
    },
    Crate {
        name: "sqlx",
        folders: &["backend/", "engine/"],
        files: &[
            ("app/builder.rs", "the builder takes the pool"),
            ("app/mod.rs", "the same"),
            ("http/database.rs", "the handler's parameter is the transaction"),
            ("http/external.rs", "the attempt opens the completing transaction"),
            ("http/handler_param.rs", "the types of connections that a handler may take"),
            ("http/outcome.rs", "finds sqlx's error in the chain of a handler's"),
            ("messages/claim.rs", "a consumer takes the transaction, and its errors keep their source"),
            ("messages/mod.rs", "a consumer takes the transaction"),
            ("messages/outcome.rs", "the error of a consumer keeps its source"),
            ("recovery/resolve.rs", "no randomness is an I/O error of the store"),
            ("recovery/sweep.rs", "the same"),
        ],
    },
];

fn strangers(tree: &Tree, outside: &Crate) -> Vec<String> {
    let mut findings = Vec::new();
    for (path, text) in tree.below(SOURCE, ".rs") {
        let inner = &path[SOURCE.len()..];
        let listed = outside.files.iter().any(|(file, _)| *file == inner);
        let named = code::names(&code::tokens(path, text), outside.name);
        if named && !listed && !outside.folders.iter().any(|folder| inner.starts_with(folder)) {
            findings.push(format!("{path} must not name {}", outside.name));
        }
        if listed && !named {
            findings
                .push(format!("{path} does not name {}: take it off the list in tests/house/outside.rs", outside.name));
        }
    }
    let gone = outside.files.iter().filter(|(file, _)| !tree.has(&format!("{SOURCE}{file}")));
    findings.extend(gone.map(|(file, _)| format!("{file} is listed in tests/house/outside.rs and does not exist")));
    findings
}

#[test]
fn axum_and_sqlx_stay_where_they_belong() {
    let tree = Tree::read();
    assert_none(&CRATES.iter().flat_map(|outside| strangers(&tree, outside)).collect::<Vec<_>>());
}

#[test]
fn a_name_at_another_place_is_found() {
    const AXUM: Crate = Crate { name: "axum", folders: &["http/"], files: &[("app.rs", "a response")] };
    let found = |app: &str, model: &str| {
        let tree = [("http/mod.rs", "use axum::A;"), ("app.rs", app), ("model.rs", model)];
        let tree = tree.map(|(inner, text)| (format!("{SOURCE}{inner}"), text));
        strangers(&Tree::of(&tree.each_ref().map(|(path, text)| (path.as_str(), *text))), &AXUM).len()
    };
    assert_eq!(found("use axum::A;", "// axum\n/// axum\nfn f() { g(\"axum\") }"), 0);
    assert_eq!(found("use axum::A;", "use axum::A;"), 1);
    assert_eq!(found("use axum::A;", "fn f() { g!(axum::A) }"), 1);
    assert_eq!(found("", ""), 1);
    assert_eq!(strangers(&Tree::of(&[]), &AXUM).len(), 1);
}
