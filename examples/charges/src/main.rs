//! Charges at a card network, with retries that are safe across a crash: `handlers.rs` and `recovery.rs` are what an
//! application writes, the rest is around them. Without arguments it serves; `demo` crashes it and shows what follows.

mod card_network;
mod demo;
mod error;
mod extract;
mod network;
mod postgres;
mod program;
mod server;
mod sqlite;

use std::{
    env,
    io::{self, Write as _},
    net::SocketAddr,
    process::ExitCode,
};

use program::Outcome;
use server::{Server, Settings};

const USAGE: &str = "\
usage: example-charges [demo | card-network [--ignore-keys]]

  (nothing)     serve until SIGTERM or Ctrl-C
  demo          serve beside a card network, die between the charge and the record, recover, and end
  card-network  the card network alone, the same as the program of that name

environment
  LISTEN           where to listen, port 0 for a free one (default 127.0.0.1:3000)
  DATABASE_URL     sqlite://FILE or postgres://… (default sqlite://charges.db; the demo's is temporary)
  NETWORK          where the card network is (default http://127.0.0.1:4000; the demo starts its own)
  NETWORK_TIMEOUT  milliseconds to wait for the network's answer (default 5000)
  RECOVER_EVERY    milliseconds between two looks for dead attempts (default 1000)
  RUST_LOG         what to log to stderr (default warn; idem_runtime=info shows the outcome of each request)";

#[tokio::main]
async fn main() -> ExitCode {
    program::log_to_stderr();
    let arguments: Vec<_> = env::args().skip(1).collect();
    let ended = match arguments.split_first() {
        None => serve().await,
        Some((first, [])) if first == "demo" => demo::run().await,
        Some((first, rest)) if first == "card-network" => match card_network::Keys::of(rest) {
            Some(keys) => card_network::serve(keys).await,
            None => return misused(card_network::USAGE),
        },
        Some(_) => return misused(USAGE),
    };
    program::ended(ended)
}

fn misused(usage: &str) -> ExitCode {
    eprintln!("{usage}");
    ExitCode::from(2)
}

async fn serve() -> Outcome {
    let settings = Settings::from_environment()?;
    // Before anyone can know the address, so that no signal finds the process unprepared.
    let stop = program::stop_signal()?;
    let server = Server::start(&settings).await?;
    program::announce(server.address())?;
    // Only a hint: whoever wanted the first line alone may have closed the pipe.
    let _hint = writeln!(io::stdout(), "{}", hint(server.address()));
    stop.await;
    Ok(server.stop().await?)
}

fn hint(address: SocketAddr) -> String {
    format!(
        "try it, twice, beside `cargo run -p example-charges -- card-network`:\n  \
         curl -i http://{address}/charges -H 'Authorization: Bearer ada' -H 'Idempotency-Key: order-1' \
         --json '{{\"amount\": 1999, \"currency\": \"USD\", \"source\": \"tok_visa\"}}'"
    )
}
