//! The demo's HTTP client: one request a TCP connection, written and read by hand.
//! By hand, because the demo has to cut a connection in the middle, which HTTP clients are built not to do.

use std::{io, net::SocketAddr, time::Duration};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

/// Longer than anything the server bounds.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Request<'r> {
    pub(crate) account: &'r str,
    pub(crate) key: Option<&'r str>,
    /// `None` is a GET, anything else a POST.
    pub(crate) body: Option<String>,
    pub(crate) path: &'r str,
}

#[derive(Debug)]
pub(crate) struct Answer {
    /// Such as `201 Created`.
    pub(crate) status: String,
    /// Names in lower case.
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    /// What the body says; null where it is not JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl Request<'_> {
    /// Sends the request and reads its answer.
    pub(crate) async fn answer(&self, server: SocketAddr) -> io::Result<Answer> {
        let mut connection = self.send(server).await?;
        let mut bytes = Vec::new();
        timeout(PATIENCE, connection.read_to_end(&mut bytes)).await??;
        read(&bytes).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the answer is not HTTP/1.1"))
    }

    /// Sends the request, and hands back the connection on which the answer would come.
    pub(crate) async fn send(&self, server: SocketAddr) -> io::Result<TcpStream> {
        let mut connection = TcpStream::connect(server).await?;
        connection.write_all(self.bytes().as_bytes()).await?;
        Ok(connection)
    }

    fn bytes(&self) -> String {
        let method = if self.body.is_some() { "POST" } else { "GET" };
        let key = self.key.map(|key| format!("Idempotency-Key: {key}\r\n")).unwrap_or_default();
        let body = self.body.as_deref().unwrap_or_default();
        format!(
            "{method} {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {}\r\n{key}\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.path,
            self.account,
            body.len()
        )
    }
}

/// Reads an answer whose end is the connection's end.
fn read(bytes: &[u8]) -> Option<Answer> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let (status_line, header_lines) = head.split_once("\r\n")?;
    let headers = header_lines.lines().filter_map(|line| line.split_once(':'));
    Some(Answer {
        status: status_line.strip_prefix("HTTP/1.1 ")?.to_owned(),
        headers: headers.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect(),
        body: body.to_owned(),
    })
}
