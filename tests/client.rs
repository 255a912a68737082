//! The client's half, numbered after `CASES.md`: keys (b78), retries (b80), redirects, the journal, and real payments.
//! Waits are on tokio's paused clock, with responses from a script; what needs sockets has a server that breaks them.

#[path = "client/breaking.rs"]
mod breaking;
#[path = "client/cutting.rs"]
mod cutting;
#[path = "client/journal.rs"]
mod journal;
#[path = "client/keys.rs"]
mod keys;
#[path = "client/network.rs"]
mod network;
#[path = "client/payments.rs"]
mod payments;
#[path = "client/redirects.rs"]
mod redirects;
#[path = "client/retries.rs"]
mod retries;
#[path = "client/secrets.rs"]
mod secrets;
#[path = "client/stub.rs"]
mod stub;

use idem_tests::{self as support, assertions as seen, service as app};
