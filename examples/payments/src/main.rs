//! A payments API whose retries are safe: `handlers.rs` is what an application writes, the rest is around it.
//! Without arguments it serves; `demo` serves and sends the attempts that the guarantee is about.

mod client;
mod demo;
mod document;
mod error;
mod extract;
mod postgres;
mod server;
mod sqlite;

use std::{
    env,
    error::Error,
    io::{self, Write as _},
    process::ExitCode,
};

use server::Server;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;

const USAGE: &str = "\
usage: example-payments [demo]

  (nothing)   serve until SIGTERM or Ctrl-C; the OpenAPI document is at /openapi.json
  demo        serve, show one key in five attempts, and end

environment
  LISTEN        where to listen, port 0 for a free one (default 127.0.0.1:3000; the demo takes a free port)
  DATABASE_URL  sqlite://FILE or postgres://… (default sqlite://payments.db; the demo's is temporary)
  RUST_LOG      what to log to stderr (default warn; idem_runtime=info shows the outcome of each request)";

#[tokio::main]
async fn main() -> ExitCode {
    log_to_stderr();
    let arguments: Vec<_> = env::args().skip(1).collect();
    let ended = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => serve().await,
        ["demo"] => demo::run().await,
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", with_sources(&*error));
            ExitCode::FAILURE
        }
    }
}

async fn serve() -> Result<(), Box<dyn Error>> {
    let database = variable("DATABASE_URL").unwrap_or_else(|| "sqlite://payments.db".to_owned());
    let listen = variable("LISTEN").unwrap_or_else(|| "127.0.0.1:3000".to_owned());
    // Before anyone can know the address, so that no signal finds the process unprepared.
    let stop = stop_signal()?;
    let server = Server::start(&database, &listen).await?;
    announce(&server)?;
    // Only a hint: whoever wanted the first line alone may have closed the pipe.
    let _hint = writeln!(io::stdout(), "{}", hint(&server));
    stop.await;
    Ok(server.stop().await?)
}

/// The first line on stdout.
fn announce(server: &Server) -> io::Result<()> {
    writeln!(io::stdout(), "listening on http://{}", server.address())
}

fn hint(server: &Server) -> String {
    format!(
        "try it, twice:\n  curl -i http://{}/payments -H 'Authorization: Bearer ada' -H 'Idempotency-Key: order-1' \
         --json '{{\"amount\": 1999, \"currency\": \"USD\", \"source\": \"tok_visa\"}}'",
        server.address()
    )
}

/// An environment variable; an empty one counts as unset.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Listens for signals from the call on; the future ends with the first.
#[cfg(unix)]
fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};

    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

#[cfg(not(unix))]
fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    Ok(async {
        let _signalled = tokio::signal::ctrl_c().await;
    })
}

/// Stdout is for the one line that programs read, and for the demo.
fn log_to_stderr() {
    let filter = EnvFilter::builder().with_default_directive(LevelFilter::WARN.into()).from_env_lossy();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();
}

fn with_sources(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let why = error.to_string();
        // Some errors say what their source says.
        if !text.ends_with(&why) {
            text = format!("{text}: {why}");
        }
        source = error.source();
    }
    text
}
