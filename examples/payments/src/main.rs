//! A payments API with safe retries. Read `handlers.rs` first: it is the part that an application writes.
//! Without arguments the program serves. `demo` serves, and sends the requests that the guarantee is about.

#![expect(clippy::duplicate_mod, reason = "the handlers are compiled once for each database")]

mod demo;
mod document;
mod validate;

/// The API on SQLite, which is the default and needs no setup.
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

use std::{net::SocketAddr, process::ExitCode};

use scaffold::{
    database::Database,
    program::{Outcome, Usage, run, variable_or},
    server::{Server, serve},
};

const USAGE: &str = "\
usage: example-payments [demo]

  (nothing)   serve until SIGTERM or Ctrl-C; the OpenAPI document is at /openapi.json
  demo        serve, show one key in five attempts, and end

environment
  LISTEN        the address to listen on, port 0 for a free port (default 127.0.0.1:3000; the demo uses a free port)
  DATABASE_URL  sqlite://FILE or postgres://… (default sqlite://payments.db; the demo uses a temporary file)
  RUST_LOG      what to log to stderr (default warn,sqlx=error; idem_runtime=info shows the outcome of each request)";

#[tokio::main]
async fn main() -> ExitCode {
    run(async |arguments| match arguments {
        [] => {
            let database = variable_or("DATABASE_URL", "sqlite://payments.db");
            let listen = variable_or("LISTEN", "127.0.0.1:3000");
            serve(start(&database, &listen), hint).await
        }
        ["demo"] => demo::run().await,
        _ => Err(Usage(USAGE).into()),
    })
    .await
}

async fn start(database: &str, listen: &str) -> Outcome<Server> {
    match Database::open(database, include_str!("tables.sql")).await? {
        Database::Sqlite(pool) => Server::start(listen, sqlite::handlers::open(pool).await?).await,
        Database::Postgres(pool) => Server::start(listen, postgres::handlers::open(pool).await?).await,
    }
}

fn hint(address: SocketAddr) -> String {
    format!(
        "try it, twice:\n  curl -i http://{address}/payments -H 'Authorization: Bearer ada' \
         -H 'Idempotency-Key: order-1' --json '{{\"amount\": 1999, \"currency\": \"USD\", \"source\": \"tok_visa\"}}'"
    )
}
