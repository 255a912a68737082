//! A small HTTP/1.1 client with one connection per request.
//! A demo has to cut a connection in the middle of a request. HTTP clients are built to prevent that.

use std::{io, net::SocketAddr};

use axum::http::StatusCode;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use super::TIME_LIMIT;
use crate::program::Outcome;

/// A request.
#[derive(Clone, Debug)]
#[must_use = "a request must be sent"]
pub struct Request {
    head: String,
    body: String,
}

/// A response.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status.
    pub status: StatusCode,
    /// Names are in lower case.
    headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
}

/// Whether a response is a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replayed {
    /// It has `Idempotent-Replayed: true`.
    Yes,
    /// It is the response of this run.
    No,
}

impl Request {
    /// A GET request.
    pub fn get(path: &str) -> Self {
        Self::new("GET", path, String::new())
    }

    /// A POST request with a JSON body.
    pub fn post(path: &str, body: &impl ToString) -> Self {
        Self::new("POST", path, body.to_string())
    }

    fn new(method: &str, path: &str, body: String) -> Self {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n",
            body.len()
        );
        Self { head, body }
    }

    /// Adds a header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.head.extend([name, ": ", value, "\r\n"]);
        self
    }

    /// Adds the account that sends the request.
    pub fn account(self, account: &str) -> Self {
        self.header("Authorization", &format!("Bearer {account}"))
    }

    /// Adds the idempotency key.
    pub fn key(self, key: &str) -> Self {
        self.header("Idempotency-Key", key)
    }

    /// Sends the request and returns the connection. The caller can drop it before the response arrives.
    pub async fn send(&self, server: SocketAddr) -> io::Result<TcpStream> {
        let mut connection = TcpStream::connect(server).await?;
        connection.write_all(format!("{}\r\n{}", self.head, self.body).as_bytes()).await?;
        Ok(connection)
    }

    /// Sends the request and reads the response.
    pub async fn response(&self, server: SocketAddr) -> Outcome<Response> {
        Response::read(self.send(server).await?).await
    }
}

impl Response {
    /// Reads a response that ends with the connection.
    pub async fn read(mut connection: TcpStream) -> Outcome<Self> {
        let mut bytes = Vec::new();
        timeout(TIME_LIMIT, connection.read_to_end(&mut bytes)).await??;
        Self::parse(&String::from_utf8(bytes)?).ok_or_else(|| "the response is not HTTP/1.1".into())
    }

    fn parse(text: &str) -> Option<Self> {
        let (head, body) = text.split_once("\r\n\r\n")?;
        let (status_line, header_lines) = head.split_once("\r\n")?;
        let headers = header_lines.lines().filter_map(|line| line.split_once(':'));
        Some(Self {
            status: status_line.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?,
            headers: headers.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect(),
            body: body.to_owned(),
        })
    }

    /// The status in words, such as `201 Created`.
    pub fn status_line(&self) -> String {
        self.status.to_string()
    }

    /// The body as JSON, or null if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Whether it is a replay.
    pub fn replayed(&self) -> Replayed {
        if self.header("idempotent-replayed") == Some("true") { Replayed::Yes } else { Replayed::No }
    }

    /// Checks the response of a step: its status, the `code` in its body, and whether it is a replay.
    pub fn expect(&self, step: u8, status: u16, code: Option<&str>, replayed: Replayed) -> Outcome {
        let found = (self.status.as_u16(), self.json()["code"].as_str().map(str::to_owned), self.replayed());
        let expected = (status, code.map(str::to_owned), replayed);
        if found == expected {
            return Ok(());
        }
        Err(format!("step {step}: expected (status, code, replayed) {expected:?}, found {found:?}: {self:?}").into())
    }
}
