//! A sender of events. It signs an event and delivers it again until the response is a 2xx.
//! A real sender waits minutes between two deliveries.

use std::{
    net::SocketAddr,
    time::{Duration, SystemTime},
};

use scaffold::{
    demo::http::{Request, Response},
    program::Outcome,
};
use serde_json::json;
use standardwebhooks::{HEADER_WEBHOOK_ID, HEADER_WEBHOOK_SIGNATURE, HEADER_WEBHOOK_TIMESTAMP};
use tokio::{net::TcpStream, time::sleep};

use crate::{stripe_signature, verify::Secrets};

const BETWEEN_DELIVERIES: Duration = Duration::from_millis(150);

#[derive(Clone)]
pub(crate) struct Sender {
    pub(crate) server: SocketAddr,
    pub(crate) secrets: Secrets,
}

/// An event before its signature. A signature contains the time of the delivery.
#[derive(Clone)]
pub(crate) enum Event {
    Standard { id: String, body: String },
    Stripe { body: String },
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

    /// Signs the event now.
    fn request(&self, secrets: &Secrets) -> Outcome<Request> {
        let now = SystemTime::now();
        Ok(match self {
            Self::Standard { id, body } => {
                let seconds = now.duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
                let signature = secrets.standard.sign(id, i64::try_from(seconds)?, body.as_bytes())?;
                Request::post("/webhooks/standard", body)
                    .header(HEADER_WEBHOOK_ID, id)
                    .header(HEADER_WEBHOOK_TIMESTAMP, &seconds.to_string())
                    .header(HEADER_WEBHOOK_SIGNATURE, &signature)
            }
            Self::Stripe { body } => {
                let signature = stripe_signature::sign(secrets.stripe.as_bytes(), body.as_bytes(), now);
                Request::post("/webhooks/stripe", body).header(stripe_signature::HEADER, &signature)
            }
        })
    }
}

impl Sender {
    /// One delivery.
    pub(crate) async fn deliver(&self, event: &Event) -> Outcome<Response> {
        event.request(&self.secrets)?.response(self.server).await
    }

    /// One delivery. Returns the connection without reading the response.
    pub(crate) async fn send(&self, event: &Event) -> Outcome<TcpStream> {
        Ok(event.request(&self.secrets)?.send(self.server).await?)
    }

    /// Delivers until the response is a 2xx. Returns the number of deliveries and the last response.
    pub(crate) async fn deliver_until_accepted(&self, event: &Event) -> Outcome<(usize, Response)> {
        for delivery in 1..100 {
            let response = self.deliver(event).await?;
            if response.status.is_success() {
                return Ok((delivery, response));
            }
            sleep(BETWEEN_DELIVERIES).await;
        }
        Err("the receiver does not accept the event".into())
    }
}
