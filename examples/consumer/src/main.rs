//! A queue whose workers are killed. Read `consumer.rs` first: it is the part that an application writes.
//! `work` takes jobs until it is killed. `demo` starts such workers and kills them.

#![expect(clippy::duplicate_mod, reason = "the story is compiled once for each database")]

/// The queue and its consumer on SQLite, which is the default and needs no setup.
#[path = "."]
mod sqlite {
    pub(crate) use scaffold::database::sqlite::{Connection, Db, NOW};
    pub(crate) mod consumer;
    pub(crate) mod demo;
    mod queue;
}

/// The same on PostgreSQL, for `DATABASE_URL=postgres://…`.
#[path = "."]
mod postgres {
    pub(crate) use scaffold::database::postgres::{Connection, Db, NOW};
    pub(crate) mod consumer;
    pub(crate) mod demo;
    mod queue;
}

use std::process::ExitCode;

use scaffold::{
    database::Database,
    demo::Folder,
    program::{Outcome, Usage, run, variable},
};

const USAGE: &str = "\
usage: example-consumer demo | work QUEUE

  demo        fill a queue, start workers, kill them at random, and count the effects
  work QUEUE  take jobs from a queue until killed

environment
  DATABASE_URL  sqlite://FILE or postgres://… (the demo uses a temporary file by default)
  SEED          a number that selects the random choices of the demo (default: a random number)
  RUST_LOG      what to log to stderr (default warn,sqlx=error; idem_runtime=info shows the outcome of each delivery)";

const TABLES: &str = include_str!("tables.sql");

#[tokio::main]
async fn main() -> ExitCode {
    run(async |arguments| match arguments {
        ["demo"] => demo().await,
        ["work", queue] => work(queue).await,
        _ => Err(Usage(USAGE).into()),
    })
    .await
}

async fn demo() -> Outcome {
    let folder = Folder::new()?;
    let url = folder.database();
    match Database::open(&url, TABLES).await? {
        Database::Sqlite(pool) => sqlite::demo::run(pool, &url).await,
        Database::Postgres(pool) => postgres::demo::run(pool, &url).await,
    }
}

async fn work(queue: &str) -> Outcome {
    let url = variable("DATABASE_URL").ok_or("DATABASE_URL is not set")?;
    match Database::open(&url, TABLES).await? {
        Database::Sqlite(pool) => sqlite::consumer::work(pool, queue).await,
        Database::Postgres(pool) => postgres::consumer::work(pool, queue).await,
    }
}
