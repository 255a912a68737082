//! The benches are in the files beside this one: `cargo bench -p idem-benches`.
