//! The house's own rules: every file is listed, folders use only what is below them, documents name what exists.
//! Each rule is a function from a tree to findings, so its tests can feed it a bad tree and see it fail.

mod house {
    mod cases;
    mod code;
    mod documents;
    mod files;
    mod folders;
    mod outcomes;
    mod outside;
    mod sizes;
    mod tree;
    mod words;
}
