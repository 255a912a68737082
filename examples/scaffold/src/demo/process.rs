//! This program again, as a child process. A demo reads its lines and kills it.
//! SIGKILL runs no destructor and flushes no buffer, so it shows what a crash leaves behind.

use std::{env, net::SocketAddr, process::Stdio};

use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    process::{self, ChildStdout, Command},
    time::timeout,
};

use super::TIME_LIMIT;
use crate::program::Outcome;

/// The lines that a child prints.
pub type Output = Lines<BufReader<ChildStdout>>;

/// A child process. Dropping it kills it.
#[derive(Debug)]
pub struct Child(process::Child);

/// A child process that serves.
#[derive(Debug)]
pub struct ServerProcess {
    /// Where it listens.
    pub address: SocketAddr,
    /// The process.
    pub child: Child,
    /// Kept open: a program that prints into a closed pipe fails.
    _output: Output,
}

impl Child {
    /// Starts this program with other arguments and additional environment variables.
    pub fn start(arguments: &[&str], environment: &[(&str, &str)]) -> Outcome<(Self, Output)> {
        let mut child = Command::new(env::current_exe()?)
            .args(arguments)
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let output = child.stdout.take().ok_or("the child has no standard output")?;
        Ok((Self(child), BufReader::new(output).lines()))
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }

    /// Sends SIGKILL, and waits for the end of the process.
    pub async fn kill(mut self) -> Outcome {
        Ok(self.0.kill().await?)
    }

    /// Sends SIGTERM, and waits for an exit code of 0. The standard library can only kill, so the shell sends the signal.
    pub async fn stop(mut self) -> Outcome {
        if cfg!(not(unix)) {
            return self.kill().await;
        }
        let id = self.0.id().ok_or("the child has ended before its time")?;
        Command::new("sh").args(["-c", &format!("kill -TERM {id}")]).status().await?;
        let ended = timeout(TIME_LIMIT, self.0.wait()).await??;
        if ended.success() { Ok(()) } else { Err(format!("the child failed: {ended}").into()) }
    }
}

impl ServerProcess {
    /// Starts a server on a free port, and waits for its first line, `listening on http://ADDRESS`.
    pub async fn start(arguments: &[&str], environment: &[(&str, &str)]) -> Outcome<Self> {
        let environment = [environment, &[("LISTEN", "127.0.0.1:0")]].concat();
        let (child, mut output) = Child::start(arguments, &environment)?;
        let first = timeout(TIME_LIMIT, output.next_line()).await??.unwrap_or_default();
        let address = first.strip_prefix("listening on http://").ok_or("the server did not start")?.parse()?;
        Ok(Self { address, child, _output: output })
    }

    /// The URL of its root.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}
