//! A server on a real socket, and a client that sends and reads bytes, so that nothing in between tidies them up.
//! HTTP/1.1 only.

use std::{net::SocketAddr, time::Duration};

use axum::Router;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinHandle,
};

use crate::soon;

/// A served router. Dropping it ends the server at once.
pub struct Server {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<()>,
}

impl Server {
    /// Serves a router on a free port.
    pub async fn start(router: Router) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn(async move {
            let serve = axum::serve(listener, router).with_graceful_shutdown(async {
                let _ = stopped.await;
            });
            serve.await.expect("a served router");
        });
        Self { address, stop: Some(stop), serving }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops as a service does: no new connections, the open requests are answered.
    pub async fn stop(mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        soon("the server to stop", &mut self.serving).await.expect("a clean end");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// A response as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawResponse {
    pub status: u16,
    /// Every line in order, names as they were sent.
    pub headers: Vec<(String, Vec<u8>)>,
    /// Without the chunks' framing.
    pub body: Vec<u8>,
}

impl RawResponse {
    /// The one value of a header; none, or more than one, is `None`.
    pub fn header(&self, name: &str) -> Option<&str> {
        match self.all(name)[..] {
            [value] => str::from_utf8(value).ok(),
            _ => None,
        }
    }

    /// All values of a header, in order.
    pub fn all(&self, name: &str) -> Vec<&[u8]> {
        let lines = self.headers.iter().filter(|(this, _)| this.eq_ignore_ascii_case(name));
        lines.map(|(_, value)| value.as_slice()).collect()
    }

    /// The body as text.
    pub fn text(&self) -> &str {
        str::from_utf8(&self.body).expect("a body in UTF-8")
    }

    /// The body as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in {:?}", self.text()))
    }
}

/// One connection. Dropping it disconnects, whatever was still to come.
pub struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    /// Connects.
    pub async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("a connection");
        stream.set_nodelay(true).expect("no delay");
        Self { stream: BufReader::new(stream) }
    }

    /// Sends exactly these bytes.
    pub async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.expect("sent bytes");
    }

    /// Reads one response. The connection can be used again.
    pub async fn response(&mut self) -> RawResponse {
        soon("a response", self.read(false)).await.expect("a whole response")
    }

    /// Reads the response to a HEAD request, whose `Content-Length` announces nothing.
    pub async fn response_to_head(&mut self) -> RawResponse {
        soon("a response", self.read(true)).await.expect("a whole response")
    }

    /// The same as [`response`](Self::response), for responses that may break off.
    pub async fn try_response(&mut self) -> std::io::Result<RawResponse> {
        soon("a response or its end", self.read(false)).await
    }

    /// What arrives unrequested within a moment: a body after HEAD, a second response.
    pub async fn surplus(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let _ = tokio::time::timeout(Duration::from_millis(100), self.stream.read_to_end(&mut bytes)).await;
        bytes
    }

    /// Disconnects with a reset instead of an orderly end.
    pub fn reset(self) {
        self.stream.get_ref().set_zero_linger().expect("a socket");
    }

    async fn read(&mut self, to_head: bool) -> std::io::Result<RawResponse> {
        let (status, headers) = loop {
            let head = self.head().await?;
            // "100 Continue" comes before the response.
            if head.0 >= 200 {
                break head;
            }
        };
        let mut response = RawResponse { status, headers, body: Vec::new() };
        if to_head || matches!(status, 204 | 304) {
            return Ok(response);
        }
        if response.header("transfer-encoding") == Some("chunked") {
            response.body = self.chunks().await?;
        } else if let Some(length) = response.header("content-length") {
            response.body = self.exactly(length.parse().expect("a length")).await?;
        } else {
            self.stream.read_to_end(&mut response.body).await?;
        }
        Ok(response)
    }

    async fn head(&mut self) -> std::io::Result<(u16, Vec<(String, Vec<u8>)>)> {
        let line = String::from_utf8_lossy(&self.line().await?).into_owned();
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.unwrap_or_else(|| panic!("no status line: {line:?}"));
        let mut headers = Vec::new();
        loop {
            let line = self.line().await?;
            if line.is_empty() {
                return Ok((status, headers));
            }
            let colon = line.iter().position(|&byte| byte == b':').expect("a header line");
            let name = String::from_utf8_lossy(&line[..colon]).into_owned();
            headers.push((name, line[colon + 1..].trim_ascii().to_vec()));
        }
    }

    async fn chunks(&mut self) -> std::io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = String::from_utf8_lossy(&self.line().await?).into_owned();
            let length = usize::from_str_radix(line.split(';').next().unwrap_or_default().trim(), 16);
            match length.expect("a chunk's length") {
                0 => break,
                length => body.append(&mut self.exactly(length).await?),
            }
            self.line().await?;
        }
        while !self.line().await?.is_empty() {} // trailers
        Ok(body)
    }

    async fn exactly(&mut self, length: usize) -> std::io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes).await?;
        Ok(bytes)
    }

    async fn line(&mut self) -> std::io::Result<Vec<u8>> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line).await?;
        line.strip_suffix(b"\r\n").map(<[u8]>::to_vec).ok_or_else(|| std::io::ErrorKind::UnexpectedEof.into())
    }
}

/// A request's bytes: the headers as given, after `Host` and `Content-Length`. JSON unless a header says otherwise.
pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let mut bytes = format!("{method} {path} HTTP/1.1\r\nhost: test\r\ncontent-length: {}\r\n", body.len());
    let typed = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    if !typed && !body.is_empty() {
        bytes.push_str("content-type: application/json\r\n");
    }
    for (name, value) in headers {
        bytes.push_str(&format!("{name}: {value}\r\n"));
    }
    bytes.push_str("\r\n");
    [bytes.as_bytes(), body].concat()
}

/// One request on a new connection.
pub async fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: impl AsRef<[u8]>,
) -> RawResponse {
    let mut connection = Connection::open(address).await;
    connection.send(&request(method, path, headers, body)).await;
    if method == "HEAD" { connection.response_to_head().await } else { connection.response().await }
}

/// A POST on a new connection.
pub async fn post(address: SocketAddr, path: &str, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> RawResponse {
    send(address, "POST", path, headers, body).await
}

/// A GET on a new connection.
pub async fn get(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> RawResponse {
    send(address, "GET", path, headers, "").await
}
