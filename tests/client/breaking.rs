//! A server on a socket that breaks its connections where a test says.
//! It remembers the bytes of every request.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

type Requests = Mutex<Vec<(String, Vec<u8>)>>;

/// What a server on a socket does with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Reads the head, and resets before the body is read.
    ResetBeforeBody,
    /// Reads the whole request, and resets.
    ResetAfterBody,
    /// Answers with this status and half of the body it announced, and closes.
    Half(u16),
    /// The same, and keeps silent then.
    Stall(u16),
    /// Reads the request, and keeps silent for as long as the server lives.
    Silence,
    /// Answers with this status and the body `done`.
    Answer(u16),
}

/// A server that does one act a connection, the last one for ever.
pub(crate) struct Breaking {
    pub(crate) address: SocketAddr,
    requests: Arc<Requests>,
    serving: JoinHandle<()>,
}

impl Breaking {
    pub(crate) async fn start(acts: impl IntoIterator<Item = Act>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::<Requests>::default();
        let mut acts: VecDeque<_> = acts.into_iter().collect();
        let seen = Arc::clone(&requests);
        let serving = tokio::spawn(async move {
            let mut silent = Vec::new();
            while let Ok((connection, _)) = listener.accept().await {
                let act = if acts.len() > 1 { acts.pop_front() } else { acts.front().copied() };
                silent.extend(perform(act.expect("an act"), connection, &seen).await);
            }
        });
        Self { address, requests, serving }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The head and the body of each request, as bytes; no body where it was not read.
    pub(crate) fn seen(&self) -> Vec<(String, Vec<u8>)> {
        self.requests.lock().unwrap().clone()
    }
}

impl Drop for Breaking {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn perform(act: Act, mut connection: TcpStream, seen: &Requests) -> Option<TcpStream> {
    let (head, rest) = read_head(&mut connection).await?;
    let body = match act {
        Act::ResetBeforeBody => Vec::new(),
        _ => read_body(&mut connection, &head, rest).await?,
    };
    seen.lock().unwrap().push((head, body));
    let answer = match act {
        Act::ResetBeforeBody | Act::ResetAfterBody => {
            connection.set_zero_linger().unwrap();
            return None;
        }
        Act::Silence => return Some(connection),
        Act::Half(status) | Act::Stall(status) => format!("HTTP/1.1 {status} Any\r\ncontent-length: 8\r\n\r\nhalf"),
        Act::Answer(status) => format!("HTTP/1.1 {status} Any\r\ncontent-length: 4\r\nconnection: close\r\n\r\ndone"),
    };
    connection.write_all(answer.as_bytes()).await.ok()?;
    if matches!(act, Act::Stall(_)) {
        return Some(connection);
    }
    connection.shutdown().await.ok()?;
    None
}

/// The head of a message, and what came behind it.
pub(crate) async fn read_head(connection: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let rest = bytes.split_off(end + 4);
            return Some((String::from_utf8(bytes).unwrap(), rest));
        }
        if connection.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

/// The body that a head announces, of which the first bytes are read.
pub(crate) async fn read_body(connection: &mut TcpStream, head: &str, mut body: Vec<u8>) -> Option<Vec<u8>> {
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
    while body.len() < length {
        if connection.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    Some(body)
}
