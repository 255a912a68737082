//! One suite, run on each database: what the README promises, over real sockets.
//! A new database is one line here, and one file beside `conformance/sqlite.rs` with what differs.
//! These are plain modules, not a macro's, so that rustfmt and `house.rs` find their files.
#![allow(clippy::duplicate_mod, reason = "the topics are compiled once for each database, on purpose")]

mod conformance {
    mod postgres;
    mod sqlite;
}
