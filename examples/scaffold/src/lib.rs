//! What the four examples share. The files of an example then hold only its story: handlers, tables, demo.
//! This crate shows nothing about idem, so read the examples first.
//!
//! # Design
//!
//! - [`program`] runs `main`: arguments, environment variables, logs, the exit code.
//! - [`database`] opens the database and creates the tables. SQLite is the default and needs no setup.
//!   `DATABASE_URL=postgres://…` selects PostgreSQL. An example writes its story once, for the aliases `Db` and
//!   `Connection`. Its `main.rs` compiles that story for both databases. The tests run both.
//! - [`server`] listens, prints the address, prunes, and stops without losing a running handler.
//! - [`account`] is the bearer-token extractor and the scope of a key. [`error`] is the error type of the handlers.
//!   [`runs`] counts how often handlers ran.
//! - [`demo`] prints a timeline. [`demo::http`] sends requests that can be cut off. [`demo::process`] starts this program
//!   again as a child process and kills it with SIGKILL.

#![allow(
    clippy::missing_errors_doc,
    clippy::must_use_candidate,
    reason = "this crate is not published, and its errors end the program"
)]

pub mod account;
pub mod database;
pub mod demo;
pub mod error;
pub mod program;
pub mod runs;
pub mod server;
