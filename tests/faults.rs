//! What breaks under a service: connections at each statement, transactions, servers, clients, disks.
//! Whatever it is, the client is told the truth, nothing runs twice, and the service recovers by itself.
#![allow(clippy::duplicate_mod, reason = "the handlers are compiled once for each database, on purpose")]

mod support;

#[path = "faults/aborted.rs"]
mod aborted;
#[path = "faults/app.rs"]
mod app;
#[path = "faults/charge.rs"]
mod charge;
#[path = "faults/commit.rs"]
mod commit;
#[path = "faults/disconnect.rs"]
mod disconnect;
#[path = "faults/external.rs"]
mod external;
#[path = "faults/external_sqlite.rs"]
mod external_sqlite;
#[path = "faults/listen.rs"]
mod listen;
#[path = "faults/lite.rs"]
mod lite;
#[path = "faults/seen.rs"]
mod seen;
#[path = "faults/sqlite.rs"]
mod sqlite;
#[path = "faults/unavailable.rs"]
mod unavailable;

use sqlx::Postgres as Db;
