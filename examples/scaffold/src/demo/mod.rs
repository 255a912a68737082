//! Tools for demos: a timeline, a temporary database, waiting for a state.
//! A demo checks each response, so it fails if the guarantee fails.

pub mod http;
pub mod process;

use std::{
    io::{self, Write as _},
    time::{Duration, Instant},
};

use tempfile::TempDir;
use tokio::time::sleep;
use uuid::Uuid;

use self::http::Response;
use crate::program::{Outcome, variable};

/// The longest wait of a demo. A longer wait means that the expected event never happens.
pub const TIME_LIMIT: Duration = Duration::from_secs(30);

/// Prints one line on standard output.
pub fn say(line: &str) -> Outcome {
    Ok(writeln!(io::stdout(), "{line}")?)
}

/// A random number. Demos use it for keys and account names, so that old rows in a database do not change the result.
pub fn random() -> u64 {
    Uuid::new_v4().as_u64_pair().1
}

/// A folder for the databases of one demo. Dropping it deletes the folder.
#[derive(Debug)]
pub struct Folder(TempDir);

impl Folder {
    /// Creates a temporary folder.
    pub fn new() -> io::Result<Self> {
        Ok(Self(tempfile::Builder::new().prefix("idem-demo-").tempdir()?))
    }

    /// The URL of a SQLite file in this folder.
    pub fn sqlite(&self, name: &str) -> String {
        format!("sqlite://{}", self.0.path().join(name).display())
    }

    /// `DATABASE_URL`, or the URL of a SQLite file in this folder.
    pub fn database(&self) -> String {
        variable("DATABASE_URL").unwrap_or_else(|| self.sqlite("demo.db"))
    }
}

/// Prints the steps of a demo with the time since its start.
#[derive(Debug)]
pub struct Timeline(Instant);

impl Timeline {
    /// Prints the title.
    pub fn start(title: &str) -> Outcome<Self> {
        say(&format!("\n{title}"))?;
        Ok(Self(Instant::now()))
    }

    /// The time since the start.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    /// Prints the start of a step.
    pub fn step(&self, number: u8, text: &str) -> Outcome {
        say(&format!("        |\n{:5.2} s o- {number}. {text}", self.0.elapsed().as_secs_f64()))
    }

    /// Prints a result, such as a status, and what it means.
    pub fn note(&self, result: &str, meaning: &str) -> Outcome {
        say(&format!("{:5.2} s |     {result:<24}  {meaning}", self.0.elapsed().as_secs_f64()))
    }

    /// Prints more about the last result.
    pub fn detail(&self, text: &str) -> Outcome {
        say(&format!("        |     {text}"))
    }
}

/// Polls until a condition holds.
pub async fn until(condition: &str, holds: impl AsyncFn() -> Outcome<bool>) -> Outcome {
    let started = Instant::now();
    while !holds().await? {
        if started.elapsed() > TIME_LIMIT {
            return Err(format!("this did not happen in time: {condition}").into());
        }
        sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

/// Sends a request again while the response is a 409. Waits as long as `Retry-After` says.
pub async fn retry(send: impl AsyncFn() -> Outcome<Response>) -> Outcome<Response> {
    let started = Instant::now();
    loop {
        let response = send().await?;
        let retry_after = response.header("retry-after").and_then(|seconds| seconds.parse().ok());
        match retry_after {
            Some(seconds) if response.status == 409 && started.elapsed() < TIME_LIMIT => {
                // 0 means that the lease is over. The recovery needs a moment more.
                sleep(Duration::from_secs(seconds).max(Duration::from_millis(200))).await;
            }
            _ => return Ok(response),
        }
    }
}
