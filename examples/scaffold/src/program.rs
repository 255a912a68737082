//! Runs the `main` of an example: arguments, environment variables, logs, signals, the exit code.
//! Standard output carries the address and the demo. Logs and errors go to standard error.

use std::{env, error::Error, io, process::ExitCode};

use tracing_subscriber::EnvFilter;

/// What a program's steps return.
pub type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// The arguments were wrong. The text says which arguments there are.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub &'static str);

/// An error, and what the program tried.
#[derive(Debug, thiserror::Error)]
#[error("{tried}")]
pub struct Failed {
    tried: String,
    source: Box<dyn Error + Send + Sync>,
}

impl Failed {
    /// Adds to an error what the program tried.
    pub fn new(tried: impl Into<String>, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { tried: tried.into(), source: source.into() }
    }
}

/// Runs a program with its arguments. Prints its error, and turns it into an exit code.
pub async fn run(program: impl AsyncFnOnce(&[&str]) -> Outcome) -> ExitCode {
    // sqlx warns about slow statements. Here they are expected: SQLite has one writer, and some handlers sleep.
    let filter = EnvFilter::builder().parse_lossy(variable_or("RUST_LOG", "warn,sqlx=error"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();
    let arguments: Vec<_> = env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    match program(&arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is::<Usage>() => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
        Err(error) => {
            eprintln!("error: {}", with_sources(&*error));
            ExitCode::FAILURE
        }
    }
}

/// An environment variable. An empty one counts as unset.
pub fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// An environment variable, or its default.
pub fn variable_or(name: &str, default: &str) -> String {
    variable(name).unwrap_or_else(|| default.to_owned())
}

/// Catches SIGTERM and Ctrl-C from this call on. The future ends with the first signal.
#[cfg(unix)]
pub fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};

    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Catches Ctrl-C. The future ends with the first.
#[cfg(not(unix))]
pub fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    Ok(async {
        let _signalled = tokio::signal::ctrl_c().await;
    })
}

fn with_sources(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let why = error.to_string();
        // Some errors repeat the text of their source.
        if !text.ends_with(&why) {
            text = format!("{text}: {why}");
        }
        source = error.source();
    }
    text
}
