//! Events that are lost, doubled, forged, and too early: each one takes effect once, printed as a timeline.
//! Every answer is checked, so the demo fails where the guarantee does.

use std::{
    collections::hash_map::RandomState,
    env, fs,
    hash::{BuildHasher as _, Hasher as _},
    io::{self, Write as _},
    time::{Duration, Instant},
};

use tokio::time::sleep;

use crate::{
    Outcome, announce, secrets,
    sender::{Answer, Event, Sender},
    server::Server,
    variable,
    verify::Secrets,
};

/// After this, what should long have happened counts as not happening.
const PATIENCE: Duration = Duration::from_secs(30);

/// On the database of `DATABASE_URL`, or on a temporary one.
pub(crate) async fn run() -> Outcome {
    if let Some(database) = variable("DATABASE_URL") {
        return on(&database).await;
    }
    let folder = env::temp_dir().join(format!("example-webhooks-demo-{:016x}", random()));
    fs::create_dir(&folder)?;
    let ended = on(&format!("sqlite://{}", folder.join("webhooks.db").display())).await;
    fs::remove_dir_all(&folder)?;
    ended
}

async fn on(database: &str) -> Outcome {
    let secrets = secrets()?;
    let server = Server::start(database, "127.0.0.1:0", secrets.clone()).await?;
    announce(&server)?;
    let told = Demo::new(Sender { server: server.address(), secrets }).tell().await;
    server.stop().await?;
    told
}

struct Demo {
    sender: Sender,
    since: Instant,
    /// Of this run's own, so that a database with other events in it does not change the numbers.
    run: String,
    ada: String,
}

impl Demo {
    fn new(sender: Sender) -> Self {
        let run = format!("{:08x}", random() & 0xffff_ffff);
        Self { sender, since: Instant::now(), ada: format!("ada-{run}"), run }
    }

    fn id(&self, name: &str) -> String {
        format!("{name}_{}", self.run)
    }

    async fn tell(&self) -> Outcome {
        self.sender.open_account(&self.ada).await?;
        say("\nEvents of two senders, signed as Standard Webhooks and as Stripe do it.")?;
        self.lost_answer().await?;
        self.at_once().await?;
        self.forged().await?;
        self.too_early().await?;
        self.same_id().await?;
        say("\n5 stories, 6 events: each took effect once.\n")
    }

    async fn lost_answer(&self) -> Outcome {
        self.begin(1, "An event of 10 for Ada. The answer is lost, so it is sent again.")?;
        let event = Event::standard(&self.id("msg_lost"), &self.ada, 10);
        let connection = self.sender.send(&event).await?;
        self.until(10).await?;
        drop(connection);
        self.note("no answer", "the connection is closed, the event is handled")?;
        let (_, answer) = self.sender.deliver_until_taken(&event).await?;
        expect(1, &answer, 204, Known::Yes)?;
        self.note("204 No Content", "known: nothing runs, nothing is said again")?;
        self.balance(10).await
    }

    async fn at_once(&self) -> Outcome {
        self.begin(2, "Stripe sends an event of 100 in 5 copies at one moment.")?;
        let event = Event::stripe(&self.id("evt_copies"), &self.ada, 100);
        let copies: Vec<_> = (0..5)
            .map(|_| {
                let (sender, event) = (self.sender.clone(), event.clone());
                tokio::spawn(async move { sender.deliver_until_taken(&event).await })
            })
            .collect();
        let (mut ran, mut deliveries) = (0, 0);
        for copy in copies {
            let (times, answer) = copy.await??;
            deliveries += times;
            ran += usize::from(!answer.known);
        }
        if ran != 1 {
            return Err(format!("of 5 copies one should run, not {ran}").into());
        }
        self.note(
            "204 No Content",
            &format!("1 of 5 ran; {deliveries} deliveries in all, those met by a 409 among them"),
        )?;
        self.balance(110).await
    }

    async fn forged(&self) -> Outcome {
        self.begin(3, "Mallory sends an event under the id that the next one will have.")?;
        let id = self.id("msg_next");
        let mallory =
            Sender { secrets: Secrets::new("bm90IHRoZSBzZWNyZXQ=", "not the secret")?, ..self.sender.clone() };
        let answer = mallory.deliver(&Event::standard(&id, "mallory", 1_000_000)).await?;
        expect(3, &answer, 401, Known::No)?;
        self.note("401 Unauthorized", "the signature is wrong, and the id is not burnt")?;
        let answer = self.sender.deliver(&Event::standard(&id, &self.ada, 1_000)).await?;
        expect(3, &answer, 204, Known::No)?;
        self.note("204 No Content", "the true event runs")?;
        self.balance(1_110).await
    }

    async fn too_early(&self) -> Outcome {
        self.begin(4, "Stripe sends an event for Grace before she has an account.")?;
        let grace = format!("grace-{}", self.run);
        let event = Event::stripe(&self.id("evt_early"), &grace, 7);
        let answer = self.sender.deliver(&event).await?;
        expect(4, &answer, 503, Known::No)?;
        self.note("503 Service Unavailable", "rolled back, the id stays free")?;
        self.sender.open_account(&grace).await?;
        let (_, answer) = self.sender.deliver_until_taken(&event).await?;
        expect(4, &answer, 204, Known::No)?;
        self.note("204 No Content", "she has one now, and the redelivery runs")?;
        if self.sender.balance(&grace).await? != 7 {
            return Err("Grace should have 7".into());
        }
        Ok(())
    }

    async fn same_id(&self) -> Outcome {
        self.begin(5, "Both senders happen to use one id.")?;
        let id = self.id("same");
        for event in [Event::standard(&id, &self.ada, 10_000), Event::stripe(&id, &self.ada, 100_000)] {
            let answer = self.sender.deliver(&event).await?;
            expect(5, &answer, 204, Known::No)?;
        }
        self.note("204 No Content", "twice: ids belong to their sender")?;
        self.balance(111_110).await
    }

    async fn until(&self, balance: i64) -> Outcome {
        let started = Instant::now();
        while self.sender.balance(&self.ada).await? != balance {
            if started.elapsed() > PATIENCE {
                return Err("the event is not handled".into());
            }
            sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    async fn balance(&self, expected: i64) -> Outcome {
        let balance = self.sender.balance(&self.ada).await?;
        if balance != expected {
            return Err(format!("Ada should have {expected}, and she has {balance}").into());
        }
        say(&format!("        |     Ada has {balance}"))
    }

    fn begin(&self, story: u8, what: &str) -> Outcome {
        say(&format!("        |\n{:5.2} s o- {story}. {what}", self.since.elapsed().as_secs_f64()))
    }

    fn note(&self, answer: &str, what: &str) -> Outcome {
        say(&format!("{:5.2} s |     {answer:<24}  {what}", self.since.elapsed().as_secs_f64()))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    Yes,
    No,
}

fn expect(story: u8, answer: &Answer, status: u16, known: Known) -> Outcome {
    let marked = if answer.known { Known::Yes } else { Known::No };
    let silent = known == Known::No || answer.body.is_empty();
    if answer.status == status && marked == known && silent {
        return Ok(());
    }
    Err(format!("story {story}: the answer should be {status}, but it was {}: {}", answer.status, answer.body).into())
}

fn say(line: &str) -> Outcome {
    Ok(writeln!(io::stdout(), "{line}")?)
}

/// Every `RandomState` of the standard library is seeded anew; good enough to tell runs of a demo apart.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
