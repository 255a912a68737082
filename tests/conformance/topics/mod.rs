//! The topics of the suite, each listed once: the file of every database includes this module.
//! `app` and `stalled_attempts` are what the topics stand on; what differs between the databases is the parent's.

use super::*;

pub mod app;
mod stalled_attempts;

mod answers;
mod concurrency;
mod consumers;
mod damaged;
mod external;
mod fingerprint;
mod key;
mod late_completion;
mod lifetime;
mod manual_resolve;
mod once;
mod options;
mod outcomes;
mod panics;
mod recovery;
mod responses;
mod savepoints;
mod schema;
mod scope;
mod settings;
mod task_context;
mod transaction;
mod values;
mod webhooks;
