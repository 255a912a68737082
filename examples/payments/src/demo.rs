//! One key, five attempts, sent over real connections and printed as a timeline.
//! The demo checks every response, so it fails if the guarantee fails.

use std::net::SocketAddr;

use scaffold::{
    demo::{
        Folder, Timeline,
        http::{Replayed, Request},
        random, retry, say, until,
    },
    program::{Outcome, variable_or},
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::start;

/// The handler then takes 2 seconds, long enough for a retry during the first attempt.
const SLOW: &str = "tok_slow_2000";

pub(crate) async fn run() -> Outcome {
    let folder = Folder::new()?;
    let server = start(&folder.database(), &variable_or("LISTEN", "127.0.0.1:0")).await?;
    let shown = Demo::new(server.address())?.show().await;
    server.stop().await?;
    shown
}

struct Demo {
    server: SocketAddr,
    timeline: Timeline,
    key: String,
    ada: String,
    grace: String,
}

impl Demo {
    fn new(server: SocketAddr) -> Outcome<Self> {
        let (key, run) = (Uuid::new_v4().to_string(), random() & 0xffff);
        let timeline =
            Timeline::start(&format!("One key, five attempts. Every request carries\nIdempotency-Key: {key}"))?;
        Ok(Self { server, timeline, key, ada: format!("ada-{run:04x}"), grace: format!("grace-{run:04x}") })
    }

    async fn show(&self) -> Outcome {
        self.first_attempt().await?;
        self.retry_while_in_progress().await?;
        let payment = self.retry_after_the_end().await?;
        self.other_request().await?;
        self.other_account().await?;
        self.count(&payment).await
    }

    async fn first_attempt(&self) -> Outcome {
        self.timeline.step(1, "Ada pays 19.99 USD and loses her connection.")?;
        let connection = self.payment(&self.ada, 1999, SLOW).send(self.server).await?;
        until("the handler runs", async || Ok(self.runs().await? == 1)).await?;
        drop(connection);
        self.timeline.note("no response", "the connection is closed, the handler keeps running")
    }

    async fn retry_while_in_progress(&self) -> Outcome {
        self.timeline.step(2, "She does not know whether it worked, so she retries at once.")?;
        let response = self.payment(&self.ada, 1999, SLOW).response(self.server).await?;
        response.expect(2, 409, Some("in-progress"), Replayed::No)?;
        let after = response.header("retry-after").ok_or("step 2: the 409 has no Retry-After")?;
        self.timeline.note(&response.status_line(), &format!("code in-progress, Retry-After: {after}"))
    }

    async fn retry_after_the_end(&self) -> Outcome<Value> {
        self.timeline.step(3, "She waits as Retry-After says, and retries with the same key.")?;
        let response = retry(async || self.payment(&self.ada, 1999, SLOW).response(self.server).await).await?;
        response.expect(3, 201, None, Replayed::Yes)?;
        self.timeline.note(&response.status_line(), "Idempotent-Replayed: true, the lost response")?;
        self.timeline.detail(&response.body)?;
        Ok(response.json())
    }

    async fn other_request(&self) -> Outcome {
        self.timeline.step(4, "By mistake she uses the same key to pay 29.99 USD.")?;
        let response = self.payment(&self.ada, 2999, "tok_visa").response(self.server).await?;
        response.expect(4, 422, Some("idempotency-key-reuse"), Replayed::No)?;
        self.timeline.note(&response.status_line(), "code idempotency-key-reuse, no payment")
    }

    async fn other_account(&self) -> Outcome {
        self.timeline.step(5, "Grace uses the same key for her payment.")?;
        let response = self.payment(&self.grace, 1999, "tok_visa").response(self.server).await?;
        response.expect(5, 201, None, Replayed::No)?;
        self.timeline.note(&response.status_line(), "a new payment: a key belongs to an account")?;
        self.timeline.detail(&response.body)
    }

    /// Compares the server's payments and runs with the timeline.
    async fn count(&self, replayed: &Value) -> Outcome {
        let (ada, grace, runs) =
            (self.payments(&self.ada).await?, self.payments(&self.grace).await?, self.runs().await?);
        if ada["data"] != json!([replayed]) || ada["count"] != 1 || grace["count"] != 1 || runs != 2 {
            let found = format!("Ada has {ada}, Grace has {grace}, the handler ran {runs} times");
            return Err(format!("expected one payment for each account and two runs: {found}").into());
        }
        say("\nFive attempts, 2 payments: 1 of Ada's, 1 of Grace's. The handler ran 2 times.\n")
    }

    fn payment(&self, account: &str, amount: u64, source: &str) -> Request {
        let body = json!({ "amount": amount, "currency": "USD", "source": source });
        Request::post("/payments", &body).account(account).key(&self.key)
    }

    async fn payments(&self, account: &str) -> Outcome<Value> {
        Ok(Request::get("/payments").account(account).response(self.server).await?.json())
    }

    async fn runs(&self) -> Outcome<u64> {
        let response = Request::get("/runs").response(self.server).await?;
        response.json()["runs"].as_u64().ok_or_else(|| "GET /runs responds without a number".into())
    }
}
