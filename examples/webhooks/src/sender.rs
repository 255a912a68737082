//! A sender of events: it signs them, and sends each again until the answer is a 2xx.
//! HTTP by hand, because it has to cut a connection in the middle, which HTTP clients are built not to do.

use std::{
    io,
    net::SocketAddr,
    time::{Duration, SystemTime},
};

use serde_json::{Value, json};
use standardwebhooks::{HEADER_WEBHOOK_ID, HEADER_WEBHOOK_SIGNATURE, HEADER_WEBHOOK_TIMESTAMP};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{sleep, timeout},
};

use crate::{Outcome, stripe_signature, verify::Secrets};

/// Longer than anything the server bounds.
const PATIENCE: Duration = Duration::from_secs(30);

/// Senders wait for minutes; this one is in a hurry.
const BETWEEN_DELIVERIES: Duration = Duration::from_millis(150);

#[derive(Clone)]
pub(crate) struct Sender {
    pub(crate) server: SocketAddr,
    pub(crate) secrets: Secrets,
}

/// An event, before it is signed: the time in the signature is that of each delivery.
#[derive(Clone)]
pub(crate) enum Event {
    Standard { id: String, body: String },
    Stripe { body: String },
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Whether it is that of a former delivery.
    pub(crate) known: bool,
    pub(crate) body: String,
}

impl Event {
    pub(crate) fn standard(id: &str, account: &str, amount: i64) -> Self {
        let body = json!({ "type": "credit.granted", "data": { "account": account, "amount": amount } });
        Self::Standard { id: id.to_owned(), body: body.to_string() }
    }

    pub(crate) fn stripe(id: &str, account: &str, amount: i64) -> Self {
        let intent = json!({ "amount_received": amount, "metadata": { "account": account } });
        let body = json!({ "id": id, "type": "payment_intent.succeeded", "data": { "object": intent } });
        Self::Stripe { body: body.to_string() }
    }

    /// The request, signed now.
    fn request(&self, secrets: &Secrets) -> Outcome<Vec<u8>> {
        let now = SystemTime::now();
        Ok(match self {
            Self::Standard { id, body } => {
                let seconds = now.duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
                let signature = secrets.standard.sign(id, i64::try_from(seconds)?, body.as_bytes())?;
                let headers = format!(
                    "{HEADER_WEBHOOK_ID}: {id}\r\n{HEADER_WEBHOOK_TIMESTAMP}: {seconds}\r\n\
                     {HEADER_WEBHOOK_SIGNATURE}: {signature}\r\n"
                );
                request("POST", "/webhooks/standard", &headers, body)
            }
            Self::Stripe { body } => {
                let signature = stripe_signature::sign(secrets.stripe.as_bytes(), body.as_bytes(), now);
                request("POST", "/webhooks/stripe", &format!("{}: {signature}\r\n", stripe_signature::HEADER), body)
            }
        })
    }
}

impl Sender {
    /// One delivery.
    pub(crate) async fn deliver(&self, event: &Event) -> Outcome<Answer> {
        Ok(self.answer(&event.request(&self.secrets)?).await?)
    }

    /// One delivery, and the connection on which its answer would come.
    pub(crate) async fn send(&self, event: &Event) -> Outcome<TcpStream> {
        let mut connection = TcpStream::connect(self.server).await?;
        connection.write_all(&event.request(&self.secrets)?).await?;
        Ok(connection)
    }

    /// Delivers until the answer is a 2xx. Says how often that was, and the last answer.
    pub(crate) async fn deliver_until_taken(&self, event: &Event) -> Outcome<(usize, Answer)> {
        for delivery in 1..100 {
            let answer = self.deliver(event).await?;
            if (200..300).contains(&answer.status) {
                return Ok((delivery, answer));
            }
            sleep(BETWEEN_DELIVERIES).await;
        }
        Err("the event is never taken".into())
    }

    pub(crate) async fn open_account(&self, name: &str) -> Outcome {
        let answer = self.answer(&request("POST", &format!("/accounts/{name}"), "", "")).await?;
        if answer.status == 201 { Ok(()) } else { Err(format!("the account {name} is not opened").into()) }
    }

    pub(crate) async fn balance(&self, name: &str) -> Outcome<i64> {
        let answer = self.answer(&request("GET", &format!("/accounts/{name}"), "", "")).await?;
        let body: Value = serde_json::from_str(&answer.body)?;
        body["balance"].as_i64().ok_or_else(|| format!("the account {name} has no balance").into())
    }

    async fn answer(&self, request: &[u8]) -> io::Result<Answer> {
        let mut connection = TcpStream::connect(self.server).await?;
        connection.write_all(request).await?;
        let mut bytes = Vec::new();
        timeout(PATIENCE, connection.read_to_end(&mut bytes)).await??;
        read(&bytes).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the answer is not HTTP/1.1"))
    }
}

fn request(method: &str, path: &str, headers: &str, body: &str) -> Vec<u8> {
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}Content-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Reads an answer whose end is the connection's end.
fn read(bytes: &[u8]) -> Option<Answer> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    let known = head.lines().any(|line| line.eq_ignore_ascii_case("idempotent-replayed: true"));
    Some(Answer { status, known, body: body.to_owned() })
}
