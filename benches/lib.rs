//! Empty: the benches are in the files beside this one.
//! `cargo bench -p idem-benches` runs them all, `--bench <file>` one.
