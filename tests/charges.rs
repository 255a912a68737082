//! The example `charges`: what a crash leaves behind when the effect is at a card network, and what becomes of it.
//! Everything is a process of its own, killed by SIGKILL at each step of an attempt, on both databases.

mod support;

#[path = "charges/cases.rs"]
mod cases;
#[path = "charges/demo.rs"]
mod demo;
#[path = "charges/killed_postgres.rs"]
mod killed_postgres;
#[path = "charges/killed_sqlite.rs"]
mod killed_sqlite;
#[path = "charges/legacy.rs"]
mod legacy;
#[path = "charges/network.rs"]
mod network;
#[path = "charges/nodes.rs"]
mod nodes;
#[path = "charges/paused.rs"]
mod paused;
#[path = "charges/relay.rs"]
mod relay;
#[path = "charges/world.rs"]
mod world;
