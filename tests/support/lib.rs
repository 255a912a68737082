//! What the tests stand on: databases, a proxy that breaks connections, raw HTTP, gates, server processes, a small service.
//! Tests write `use idem_tests::…`; `tests/run` gives them a PostgreSQL. `../CASES.md` lists what the tests named `bNN_…` are
//! numbered after.

use std::{
    future::Future,
    panic::Location,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::time::timeout;

pub mod account;
pub mod assertions;
pub mod databases;
pub mod gate;
pub mod http;
pub mod keys;
pub mod log_capture;
pub mod network;
pub mod process;
pub mod proxy;
pub mod service;
pub mod statement_log;
pub mod tally;

/// Waits for what a test is sure of. Half a minute without it is a failure that names the line, not a test that hangs.
#[track_caller]
pub fn soon<F: Future>(what: &str, future: F) -> impl Future<Output = F::Output> {
    let asked = Location::caller();
    async move {
        let waited = timeout(Duration::from_secs(30), future).await;
        waited.unwrap_or_else(|_| panic!("{asked}: waited half a minute for {what}"))
    }
}

/// A suffix that no other test, process or earlier run has.
fn unique() -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock past 1970");
    format!("{:x}_{}_{}", since.as_micros(), std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}
