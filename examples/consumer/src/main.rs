//! A queue whose workers are killed: `consumer.rs` is what an application writes, the rest is around it.
//! `work` takes jobs until it is killed; `demo` starts such workers and kills them.

mod demo;
mod postgres;
mod sqlite;
mod worker;

use std::{env, error::Error, io, process::ExitCode};

const USAGE: &str = "\
usage: example-consumer demo | work QUEUE

  demo        fill a queue, start workers, kill them at random, and count the effects
  work QUEUE  take jobs from a queue until killed

environment
  DATABASE_URL  sqlite://FILE or postgres://… (the demo's default is a temporary file)
  SEED          which random choices the demo makes (default: others each time)
  RUST_LOG      what to log to stderr (default error; idem_runtime=info shows the outcome of each delivery)";

pub(crate) type Outcome<T = ()> = Result<T, Box<dyn Error>>;

#[tokio::main]
async fn main() -> ExitCode {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "error".into());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();
    let arguments: Vec<_> = env::args().skip(1).collect();
    let ended = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["demo"] => demo::run().await,
        ["work", queue] => work(queue).await,
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn work(queue: &str) -> Outcome {
    let url = variable("DATABASE_URL").ok_or("DATABASE_URL is not set")?;
    if is_postgres(&url) { postgres::mount::work(&url, queue).await } else { sqlite::mount::work(&url, queue).await }
}

pub(crate) fn is_postgres(url: &str) -> bool {
    url.starts_with("postgres:") || url.starts_with("postgresql:")
}

/// An environment variable; an empty one counts as unset.
pub(crate) fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}
