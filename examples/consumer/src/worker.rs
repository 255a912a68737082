//! What a worker says of each delivery, one line each: the demo reads it, and so may you.
//! And what the database has in the end.

use std::{
    io::{self, Write as _},
    sync::Mutex,
};

/// Where a worker writes what it does.
pub(crate) struct Journal(Mutex<io::Stdout>);

/// What a line of it is made of. Implemented by the job of each database.
pub(crate) trait Delivery {
    fn message(&self) -> &str;
    fn deliveries(&self) -> i64;
}

impl Journal {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(io::stdout()))
    }

    /// Writes a line. Whether someone reads it is not the worker's business.
    pub(crate) fn say(&self, job: &impl Delivery, what: &str) {
        if let Ok(mut out) = self.0.lock() {
            let _unread = writeln!(out, "{} delivery {}: {what}", job.message(), job.deliveries());
            let _unread = out.flush();
        }
    }
}

/// What there is of one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Jobs that are neither acknowledged nor put aside.
    pub(crate) waiting: i64,
    pub(crate) aside: i64,
    pub(crate) shipments: i64,
    /// The messages that these are for.
    pub(crate) shipped: i64,
    pub(crate) stock: i64,
}
