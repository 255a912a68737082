//! A receiver of signed webhooks. `handlers.rs` is the part that an application writes, and `verify.rs` makes it safe.
//! Without arguments the program serves. `demo` serves, and sends events as unreliably as real senders do.

#![expect(clippy::duplicate_mod, reason = "the handlers are compiled once for each database")]

mod demo;
mod sender;
mod stripe_signature;
mod verify;

/// The receiver on SQLite, which is the default and needs no setup.
#[path = "."]
mod sqlite {
    pub(crate) use scaffold::database::sqlite::{Connection, Db};
    pub(crate) mod handlers;
}

/// The same handlers on PostgreSQL, for `DATABASE_URL=postgres://…`.
#[path = "."]
mod postgres {
    pub(crate) use scaffold::database::postgres::{Connection, Db};
    pub(crate) mod handlers;
}

use std::process::ExitCode;

use scaffold::{
    database::Database,
    program::{Outcome, Usage, run, variable_or},
    server::{Server, serve},
};
use verify::Secrets;

const USAGE: &str = "\
usage: example-webhooks [demo]

  (nothing)   serve until SIGTERM or Ctrl-C
  demo        serve, send events that are lost, copied, forged and early, and end

environment
  LISTEN           the address to listen on, port 0 for a free port (default 127.0.0.1:3000; the demo uses a free port)
  DATABASE_URL     sqlite://FILE or postgres://… (default sqlite://webhooks.db; the demo uses a temporary file)
  STANDARD_SECRET  the whsec_… of the sender that follows Standard Webhooks (default: a secret for tests)
  STRIPE_SECRET    the whsec_… of Stripe's endpoint (default: a secret for tests)
  RUST_LOG         what to log to stderr (default warn,sqlx=error; idem_runtime=info shows the outcome of each delivery)";

#[tokio::main]
async fn main() -> ExitCode {
    run(async |arguments| match arguments {
        [] => {
            let database = variable_or("DATABASE_URL", "sqlite://webhooks.db");
            let listen = variable_or("LISTEN", "127.0.0.1:3000");
            serve(start(&database, &listen, secrets()?), |address| {
                format!("send signed events to http://{address}/webhooks/standard and http://{address}/webhooks/stripe")
            })
            .await
        }
        ["demo"] => demo::run().await,
        _ => Err(Usage(USAGE).into()),
    })
    .await
}

async fn start(database: &str, listen: &str, secrets: Secrets) -> Outcome<Server> {
    match Database::open(database, include_str!("tables.sql")).await? {
        Database::Sqlite(pool) => Server::start(listen, sqlite::handlers::open(pool, secrets).await?).await,
        Database::Postgres(pool) => Server::start(listen, postgres::handlers::open(pool, secrets).await?).await,
    }
}

fn secrets() -> Outcome<Secrets> {
    let standard = variable_or("STANDARD_SECRET", "whsec_dGhpcyBpcyBmb3IgdHJ5aW5nIG91dA==");
    let stripe = variable_or("STRIPE_SECRET", "whsec_for_trying_out");
    Ok(Secrets::new(&standard, &stripe)?)
}
