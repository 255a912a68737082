//! The two programs of the demo as processes of their own, and a client for both.
//! Both are this very executable, started with other arguments.

use std::{env, net::SocketAddr, process::Stdio, time::Duration};

use reqwest::{RequestBuilder, StatusCode, header::HeaderMap};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    time::timeout,
};

use crate::program::Outcome;

/// A running program. Dropped, it is killed.
pub(super) struct Program {
    pub(super) address: SocketAddr,
    child: Child,
    /// Kept open: a program that prints into a closed pipe would fail.
    _output: Lines<BufReader<ChildStdout>>,
}

impl Program {
    /// Starts a program and waits for its first line, `listening on http://ADDRESS`.
    pub(super) async fn start(arguments: &[&str], environment: &[(&str, &str)]) -> Outcome<Self> {
        let mut child = Command::new(env::current_exe()?)
            .args(arguments)
            .envs(environment.iter().copied())
            .env("LISTEN", "127.0.0.1:0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let output = child.stdout.take().ok_or("a program without stdout")?;
        let mut output = BufReader::new(output).lines();
        let first = timeout(super::PATIENCE, output.next_line()).await??.unwrap_or_default();
        let address = first.strip_prefix("listening on http://").ok_or("a program did not start")?.parse()?;
        Ok(Self { address, child, _output: output })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// SIGKILL, where there is such a thing: no destructor runs, no buffer is flushed.
    pub(super) async fn kill(mut self) -> Outcome {
        Ok(self.child.kill().await?)
    }

    /// SIGTERM and a good end; the standard library can only kill, so the shell does it.
    pub(super) async fn stop(mut self) -> Outcome {
        let Some(id) = self.child.id() else { return Err("a program ended by itself".into()) };
        if cfg!(not(unix)) {
            return self.kill().await;
        }
        Command::new("sh").args(["-c", &format!("kill -TERM {id}")]).status().await?;
        let ended = timeout(super::PATIENCE, self.child.wait()).await??;
        if ended.success() { Ok(()) } else { Err(format!("a program did not end well: {ended}").into()) }
    }
}

/// A new connection for each request, so that no restart meets an old one.
#[derive(Clone)]
pub(super) struct Client(reqwest::Client);

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) code: u16,
    headers: HeaderMap,
    pub(super) body: String,
}

impl Answer {
    /// Such as `201 Created`.
    pub(super) fn status(&self) -> String {
        StatusCode::from_u16(self.code).map(|status| status.to_string()).unwrap_or_default()
    }

    /// What the body says; null where it is not JSON.
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

impl Client {
    pub(super) fn new() -> Outcome<Self> {
        let client = reqwest::Client::builder().pool_max_idle_per_host(0).no_proxy().timeout(Duration::from_mins(1));
        Ok(Self(client.build()?))
    }

    pub(super) async fn get(&self, url: &str, headers: &[(&'static str, String)]) -> Outcome<Answer> {
        answered(self.0.get(url), headers).await
    }

    pub(super) async fn post(&self, url: &str, headers: &[(&'static str, String)], body: &Value) -> Outcome<Answer> {
        answered(self.0.post(url).json(body), headers).await
    }
}

async fn answered(request: RequestBuilder, headers: &[(&'static str, String)]) -> Outcome<Answer> {
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, value));
    let response = request.send().await?;
    let (code, headers) = (response.status().as_u16(), response.headers().clone());
    Ok(Answer { code, headers, body: response.text().await? })
}
