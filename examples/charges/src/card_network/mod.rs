//! A card network to try retries on: it charges cards, remembers idempotency keys, and misbehaves as it is told.
//! `http` answers, `ledger` remembers, `control` is told.

mod control;
mod http;
mod ledger;

use std::sync::Arc;

use control::Control;
use ledger::Ledger;
use tokio::net::TcpListener;

use crate::program::{Outcome, announce, stop_signal, variable};

pub(crate) const USAGE: &str = "\
usage: card-network [--ignore-keys]

  (nothing)      a network that honours Idempotency-Key: the same key is answered with the same charge
  --ignore-keys  a network that never looks at the header: every request charges

environment
  LISTEN    where to listen, port 0 for a free one (default 127.0.0.1:4000)
  LEDGER    the SQLite file that the charges are in (default sqlite://ledger.db)
  RUST_LOG  what to log to stderr (default warn)

requests
  POST /charges             {amount, currency, source, customer?, reference?}, Idempotency-Key: KEY
                            201 with the charge; 402 with it where the card is declined (source tok_declined);
                            422 for another request under a key
  GET  /charges/by-key/KEY  the charge that a key made, or 404
  GET  /charges?reference=  the charges with a reference of the caller's
  GET  /ledger              everything, in order
  POST /control             {next, times?, milliseconds?}: what to do with the next charge, or the next so many
                            (times: 0 until told otherwise). next is one of
                              normal        what it does by itself
                              delay         charge after so many milliseconds
                              refuse        decline the card
                              fail          500, and nothing charged
                              hold-request  charge once released, whether or not the client is still there
                              hold-answer   charge, and answer once released
                              cut-answer    charge, send half of the answer, close the connection
                              drop-answer   charge, send nothing, close the connection
  POST /release             let go of everything that is held
  GET  /control             how many charges were asked for, how many are held, how many look-ups were answered";

/// Whether the network looks at `Idempotency-Key`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keys {
    Honoured,
    Ignored,
}

impl Keys {
    /// As the command line says; `None` where it says something else.
    pub(crate) fn of(arguments: &[String]) -> Option<Self> {
        match arguments {
            [] => Some(Self::Honoured),
            [flag] if flag == "--ignore-keys" => Some(Self::Ignored),
            _ => None,
        }
    }
}

struct Network {
    keys: Keys,
    ledger: Ledger,
    control: Control,
}

/// Serves until SIGTERM or Ctrl-C. What was answered is in the ledger, so nothing needs to end first.
pub(crate) async fn serve(keys: Keys) -> Outcome {
    let stop = stop_signal()?;
    let ledger = Ledger::open(&variable("LEDGER", "sqlite://ledger.db")).await?;
    let network = Arc::new(Network { keys, ledger, control: Control::default() });
    let listener = TcpListener::bind(variable("LISTEN", "127.0.0.1:4000")).await?;
    announce(listener.local_addr()?)?;
    tokio::select! {
        () = http::serve(listener, Arc::clone(&network)) => {}
        () = stop => {}
    }
    network.ledger.close().await;
    Ok(())
}
