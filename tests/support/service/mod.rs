//! A small service whose handlers do what their request says, fail where it says, and can be held.
//! Its tables: `effects`, which only the handlers write, and idem's own.
#![allow(clippy::duplicate_mod, reason = "`charge` is compiled once for each database, on purpose")]

mod app;
mod orders;
mod postgres_app;
pub mod sqlite_app;

pub use app::{Account, App, Failed, Probe};
pub use orders::{Act, Order, order, request};
pub use postgres_app::{Service, charge, prepare};
