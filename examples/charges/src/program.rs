//! What both programs need around them: environment variables, signals, logs, the first line, errors as text.
//! Each takes this file as a module of its own.

use std::{
    env,
    error::Error,
    io::{self, Write as _},
    net::SocketAddr,
    process::ExitCode,
};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;

pub(crate) type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// What the shell is told; why it failed goes to stderr.
pub(crate) fn ended(outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", with_sources(&*error));
            ExitCode::FAILURE
        }
    }
}

/// The first line on stdout, which tells other programs where to connect.
pub(crate) fn announce(address: SocketAddr) -> io::Result<()> {
    writeln!(io::stdout(), "listening on http://{address}")
}

/// An environment variable; an empty one counts as unset.
pub(crate) fn variable(name: &str, default: &str) -> String {
    env::var(name).ok().filter(|value| !value.is_empty()).unwrap_or_else(|| default.to_owned())
}

/// Listens for signals from the call on; the future ends with the first.
#[cfg(unix)]
pub(crate) fn stop_signal() -> io::Result<impl Future<Output = ()>> {
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
pub(crate) fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    Ok(async {
        let _signalled = tokio::signal::ctrl_c().await;
    })
}

/// Stdout is for the one line that programs read, and for the demo.
pub(crate) fn log_to_stderr() {
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
