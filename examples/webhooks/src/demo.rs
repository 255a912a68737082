//! Events that are lost, copied, forged and early: each takes effect once. A timeline shows it.
//! The demo checks every response, so it fails if the guarantee fails.

use scaffold::{
    demo::{
        Folder, Timeline,
        http::{Replayed, Request},
        random, say, until,
    },
    program::{Outcome, variable_or},
};

use crate::{
    secrets,
    sender::{Event, Sender},
    start,
    verify::Secrets,
};

pub(crate) async fn run() -> Outcome {
    let (folder, secrets) = (Folder::new()?, secrets()?);
    let server = start(&folder.database(), &variable_or("LISTEN", "127.0.0.1:0"), secrets.clone()).await?;
    let shown = Demo::new(Sender { server: server.address(), secrets })?.show().await;
    server.stop().await?;
    shown
}

struct Demo {
    sender: Sender,
    timeline: Timeline,
    /// A part of all names. No other run uses it: old events in the database do not change the result.
    run: String,
    ada: String,
}

impl Demo {
    fn new(sender: Sender) -> Outcome<Self> {
        let run = format!("{:08x}", random() & 0xffff_ffff);
        let timeline =
            Timeline::start("Events of two senders, signed in the formats of Standard Webhooks and of Stripe.")?;
        Ok(Self { sender, timeline, ada: format!("ada-{run}"), run })
    }

    fn id(&self, name: &str) -> String {
        format!("{name}_{}", self.run)
    }

    async fn show(&self) -> Outcome {
        self.open_account(&self.ada).await?;
        self.lost_response().await?;
        self.copies().await?;
        self.forged().await?;
        self.early().await?;
        self.same_id().await?;
        say("\n5 stories, 6 events: each took effect once.\n")
    }

    async fn lost_response(&self) -> Outcome {
        self.timeline.step(1, "An event of 10 for Ada. The response is lost, so the sender delivers it again.")?;
        let event = Event::standard(&self.id("msg_lost"), &self.ada, 10);
        let connection = self.sender.send(&event).await?;
        until("the event takes effect", async || Ok(self.balance(&self.ada).await? == 10)).await?;
        drop(connection);
        self.timeline.note("no response", "the connection is closed, the event is handled")?;
        let (_, response) = self.sender.deliver_until_accepted(&event).await?;
        response.expect(1, 204, None, Replayed::Yes)?;
        if !response.body.is_empty() {
            return Err(format!("step 1: the replay has a body: {}", response.body).into());
        }
        self.timeline.note(&response.status_line(), "a replay: the handler does not run")?;
        self.ada_has(10).await
    }

    async fn copies(&self) -> Outcome {
        self.timeline.step(2, "Stripe sends 5 copies of an event of 100 at the same time.")?;
        let event = Event::stripe(&self.id("evt_copies"), &self.ada, 100);
        let copies: Vec<_> = (0..5)
            .map(|_| {
                let (sender, event) = (self.sender.clone(), event.clone());
                tokio::spawn(async move { sender.deliver_until_accepted(&event).await })
            })
            .collect();
        let (mut ran, mut deliveries) = (0, 0);
        for copy in copies {
            let (times, response) = copy.await??;
            deliveries += times;
            ran += usize::from(response.replayed() == Replayed::No);
        }
        if ran != 1 {
            return Err(format!("step 2: expected 1 of 5 copies to run, found {ran}").into());
        }
        self.timeline
            .note("204 No Content", &format!("1 of 5 ran; {deliveries} deliveries, including those with a 409"))?;
        self.ada_has(110).await
    }

    async fn forged(&self) -> Outcome {
        self.timeline.step(3, "Mallory sends an event with the id of the next event.")?;
        let id = self.id("msg_next");
        let mallory =
            Sender { secrets: Secrets::new("bm90IHRoZSBzZWNyZXQ=", "not the secret")?, ..self.sender.clone() };
        let response = mallory.deliver(&Event::standard(&id, "mallory", 1_000_000)).await?;
        response.expect(3, 401, None, Replayed::No)?;
        self.timeline.note(&response.status_line(), "the signature is wrong, and the id stays free")?;
        let response = self.sender.deliver(&Event::standard(&id, &self.ada, 1_000)).await?;
        response.expect(3, 204, None, Replayed::No)?;
        self.timeline.note(&response.status_line(), "the genuine event runs")?;
        self.ada_has(1_110).await
    }

    async fn early(&self) -> Outcome {
        self.timeline.step(4, "Stripe sends an event for Grace before she has an account.")?;
        let grace = format!("grace-{}", self.run);
        let event = Event::stripe(&self.id("evt_early"), &grace, 7);
        let response = self.sender.deliver(&event).await?;
        response.expect(4, 503, None, Replayed::No)?;
        self.timeline.note(&response.status_line(), "rolled back, and the id stays free")?;
        self.open_account(&grace).await?;
        let (_, response) = self.sender.deliver_until_accepted(&event).await?;
        response.expect(4, 204, None, Replayed::No)?;
        self.timeline.note(&response.status_line(), "she has an account now, and the redelivery runs")?;
        let balance = self.balance(&grace).await?;
        if balance == 7 { Ok(()) } else { Err(format!("step 4: expected Grace to have 7, found {balance}").into()) }
    }

    async fn same_id(&self) -> Outcome {
        self.timeline.step(5, "Both senders use the same id.")?;
        let id = self.id("same");
        for event in [Event::standard(&id, &self.ada, 10_000), Event::stripe(&id, &self.ada, 100_000)] {
            self.sender.deliver(&event).await?.expect(5, 204, None, Replayed::No)?;
        }
        self.timeline.note("204 No Content", "both run: an id belongs to its sender")?;
        self.ada_has(111_110).await
    }

    async fn ada_has(&self, expected: i64) -> Outcome {
        let balance = self.balance(&self.ada).await?;
        if balance != expected {
            return Err(format!("expected Ada to have {expected}, found {balance}").into());
        }
        self.timeline.detail(&format!("Ada has {balance}"))
    }

    async fn open_account(&self, name: &str) -> Outcome {
        let response = Request::post(&format!("/accounts/{name}"), &"").response(self.sender.server).await?;
        if response.status == 201 {
            Ok(())
        } else {
            Err(format!("cannot open the account {name}: {response:?}").into())
        }
    }

    async fn balance(&self, name: &str) -> Outcome<i64> {
        let response = Request::get(&format!("/accounts/{name}")).response(self.sender.server).await?;
        response.json()["balance"].as_i64().ok_or_else(|| format!("the account {name} has no balance").into())
    }
}
