//! Charges at a card network, with retries that are safe across a crash. Read `handlers.rs` and `recovery.rs` first.
//! Without arguments the program serves. `demo` crashes it, and shows how the charge is recovered.

#![expect(clippy::duplicate_mod, reason = "the story is compiled once for each database")]

mod card_network;
mod demo;
mod error;
mod network;
mod request;

/// The API and its recovery on SQLite, which is the default and needs no setup.
#[path = "."]
mod sqlite {
    pub(crate) use scaffold::database::sqlite::Db;
    pub(crate) mod handlers;
    mod recovery;
}

/// The same on PostgreSQL, for `DATABASE_URL=postgres://…`.
#[path = "."]
mod postgres {
    pub(crate) use scaffold::database::postgres::Db;
    pub(crate) mod handlers;
    mod recovery;
}

use std::{net::SocketAddr, process::ExitCode, time::Duration};

use network::Network;
use scaffold::{
    database::Database,
    program::{Failed, Outcome, Usage, run, variable_or},
    server::{Server, serve},
};

const USAGE: &str = "\
usage: example-charges [demo | card-network [--ignore-keys]]

  (nothing)     serve until SIGTERM or Ctrl-C
  demo          start a card network, die between the charge and the record, recover, and end
  card-network  serve the card network alone, like the program card-network

environment
  LISTEN           the address to listen on, port 0 for a free port (default 127.0.0.1:3000)
  DATABASE_URL     sqlite://FILE or postgres://… (default sqlite://charges.db; the demo uses a temporary file)
  NETWORK          the URL of the card network (default http://127.0.0.1:4000; the demo starts one)
  NETWORK_TIMEOUT  milliseconds to wait for the network's response (default 5000)
  RECOVER_EVERY    milliseconds between two searches for stalled attempts (default 1000)
  RUST_LOG         what to log to stderr (default warn,sqlx=error; idem_runtime=info shows the outcome of each request)";

#[tokio::main]
async fn main() -> ExitCode {
    run(async |arguments| match arguments {
        [] => serve(start(), hint).await,
        ["demo"] => demo::run().await,
        ["card-network", rest @ ..] => card_network::run(rest).await,
        _ => Err(Usage(USAGE).into()),
    })
    .await
}

async fn start() -> Outcome<Server> {
    let network =
        Network::new(&variable_or("NETWORK", "http://127.0.0.1:4000"), milliseconds("NETWORK_TIMEOUT", "5000")?)
            .map_err(|error| Failed::new("cannot create the client for NETWORK", error))?;
    let recover_every = milliseconds("RECOVER_EVERY", "1000")?;
    let (database, listen) =
        (variable_or("DATABASE_URL", "sqlite://charges.db"), variable_or("LISTEN", "127.0.0.1:3000"));
    match Database::open(&database, include_str!("tables.sql")).await? {
        Database::Sqlite(pool) => {
            Server::start(&listen, sqlite::handlers::open(pool, network, recover_every).await?).await
        }
        Database::Postgres(pool) => {
            Server::start(&listen, postgres::handlers::open(pool, network, recover_every).await?).await
        }
    }
}

fn milliseconds(name: &str, default: &str) -> Outcome<Duration> {
    let milliseconds = variable_or(name, default).parse();
    let milliseconds =
        milliseconds.map_err(|error| Failed::new(format!("{name} must be a number of milliseconds"), error))?;
    Ok(Duration::from_millis(milliseconds))
}

fn hint(address: SocketAddr) -> String {
    format!(
        "try it, twice, beside `cargo run -p example-charges -- card-network`:\n  \
         curl -i http://{address}/charges -H 'Authorization: Bearer ada' -H 'Idempotency-Key: order-1' \
         --json '{{\"amount\": 1999, \"currency\": \"USD\", \"source\": \"tok_visa\"}}'"
    )
}
