//! The stand-in for a card network as a program of its own, with a ledger that no application reaches into.
//! `example-charges card-network` is the same program: there `cargo run` needs to build only one.

#[path = "../card_network/mod.rs"]
mod card_network;
#[path = "../program.rs"]
mod program;

use std::{env, process::ExitCode};

#[tokio::main]
async fn main() -> ExitCode {
    program::log_to_stderr();
    let arguments: Vec<_> = env::args().skip(1).collect();
    let Some(keys) = card_network::Keys::of(&arguments) else {
        eprintln!("{}", card_network::USAGE);
        return ExitCode::from(2);
    };
    program::ended(card_network::serve(keys).await)
}
