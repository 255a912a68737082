//! The stand-in for a card network as a separate program, with a ledger that no application writes.
//! `example-charges card-network` is the same program: there `cargo run` builds only one.

#[path = "../card_network/mod.rs"]
mod card_network;

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    scaffold::program::run(async |arguments| card_network::run(arguments).await).await
}
