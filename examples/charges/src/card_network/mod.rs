//! A card network for tests of retries: it charges cards, remembers idempotency keys, and fails on command.
//! `http` responds, `ledger` stores the charges, `control` holds the commands.

mod control;
mod http;
mod ledger;

use std::sync::Arc;

use control::Control;
use ledger::Ledger;
use scaffold::{
    program::{Outcome, Usage, stop_signal, variable_or},
    server::announce,
};
use tokio::net::TcpListener;

const USAGE: &str = "\
usage: card-network [--ignore-keys]

  (nothing)      a network that honours Idempotency-Key: one key makes one charge
  --ignore-keys  a network that ignores the header: every request charges

environment
  LISTEN    the address to listen on, port 0 for a free port (default 127.0.0.1:4000)
  LEDGER    the SQLite file of the charges (default sqlite://ledger.db)
  RUST_LOG  what to log to stderr (default warn,sqlx=error)

requests
  POST /charges             {amount, currency, source, customer?, reference?}, Idempotency-Key: KEY
                            201 with the charge; 402 with the charge if the card is declined (source tok_declined);
                            422 for a different request under the same key
  GET  /charges/by-key/KEY  the charge under a key, or 404
  GET  /charges?reference=  the charges with a reference
  GET  /ledger              all charges, in order
  POST /control             {next, times?, milliseconds?}: how to treat the next charges
                            times is how many (default 1; 0 means all until the next command). next is one of
                              normal        charge and respond
                              delay         charge after the milliseconds
                              refuse        decline the card
                              fail          respond with 500, and charge nothing
                              hold-request  charge after the release, even if the client has gone
                              hold-answer   charge, and respond after the release
                              cut-answer    charge, send half of the response, close the connection
                              drop-answer   charge, send nothing, close the connection
  POST /release             release everything that is held
  GET  /control             the number of charge requests, of held ones, and of lookups";

/// Whether the network reads `Idempotency-Key`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keys {
    Honoured,
    Ignored,
}

struct Network {
    keys: Keys,
    ledger: Ledger,
    control: Control,
}

/// Serves until SIGTERM or Ctrl-C. A charge is in the ledger before its response, so stopping loses nothing.
pub(crate) async fn run(arguments: &[&str]) -> Outcome {
    let keys = match arguments {
        [] => Keys::Honoured,
        ["--ignore-keys"] => Keys::Ignored,
        _ => return Err(Usage(USAGE).into()),
    };
    let stop = stop_signal()?;
    let ledger = Ledger::open(&variable_or("LEDGER", "sqlite://ledger.db")).await?;
    let network = Arc::new(Network { keys, ledger, control: Control::default() });
    let listener = TcpListener::bind(variable_or("LISTEN", "127.0.0.1:4000")).await?;
    announce(listener.local_addr()?)?;
    tokio::select! {
        () = http::serve(listener, Arc::clone(&network)) => {}
        () = stop => {}
    }
    network.ledger.close().await;
    Ok(())
}
