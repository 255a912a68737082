//! One key, five attempts: the whole guarantee, sent over real connections and printed as a timeline.
//! Every answer is checked, so the demo fails where the guarantee does.

use std::{
    collections::hash_map::RandomState,
    env,
    error::Error,
    fs,
    hash::{BuildHasher as _, Hasher as _},
    io::{self, Write as _},
    net::SocketAddr,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    announce,
    client::{Answer, Request},
    server::Server,
    variable,
};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// Long enough for the retry that comes while the first attempt runs.
const FIRST_ATTEMPT_TAKES: &str = "tok_slow_2000";

/// After this, what should long have happened counts as not happening.
const PATIENCE: Duration = Duration::from_secs(30);

/// On the database of `DATABASE_URL`, or on a temporary one.
pub(crate) async fn run() -> Outcome {
    if let Some(database) = variable("DATABASE_URL") {
        return on(&database).await;
    }
    let folder = env::temp_dir().join(format!("example-payments-demo-{:016x}", random()));
    fs::create_dir(&folder)?;
    let ended = on(&format!("sqlite://{}", folder.join("payments.db").display())).await;
    fs::remove_dir_all(&folder)?;
    ended
}

async fn on(database: &str) -> Outcome {
    let server = Server::start(database, &variable("LISTEN").unwrap_or_else(|| "127.0.0.1:0".to_owned())).await?;
    announce(&server)?;
    let told = Demo::new(server.address()).tell().await;
    server.stop().await?;
    told
}

struct Demo {
    server: SocketAddr,
    since: Instant,
    key: String,
    /// Accounts of this run's own, so that a database with other payments in it does not change the numbers.
    ada: String,
    grace: String,
}

impl Demo {
    fn new(server: SocketAddr) -> Self {
        let (high, low) = (random(), random());
        let key = format!(
            "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
            high >> 32,
            high >> 16 & 0xffff,
            high & 0xfff,
            low >> 48 & 0xfff,
            low & 0xffff_ffff_ffff
        );
        let run = random() & 0xffff;
        Self { server, since: Instant::now(), key, ada: format!("ada-{run:04x}"), grace: format!("grace-{run:04x}") }
    }

    async fn tell(&self) -> Outcome {
        say(&format!("\nOne key, five attempts. Every request carries\nIdempotency-Key: {}", self.key))?;
        self.first_attempt().await?;
        self.retry_while_in_progress().await?;
        let payment = self.retry_after_the_end().await?;
        self.other_request().await?;
        self.other_account().await?;
        self.count(&payment).await
    }

    async fn first_attempt(&self) -> Outcome {
        self.begin(1, "Ada pays 19.99 USD, and loses her connection.")?;
        let connection = self.payment(&self.ada, 1999, FIRST_ATTEMPT_TAKES).send(self.server).await?;
        let started = Instant::now();
        while self.runs().await? == 0 {
            if started.elapsed() > PATIENCE {
                return Err("attempt 1: the handler did not start".into());
            }
            sleep(Duration::from_millis(5)).await;
        }
        drop(connection);
        self.note("no answer", "the connection is closed, the handler runs on")
    }

    async fn retry_while_in_progress(&self) -> Outcome {
        self.begin(2, "Did it work? She cannot know, so she retries at once.")?;
        let answer = self.payment(&self.ada, 1999, FIRST_ATTEMPT_TAKES).answer(self.server).await?;
        expect(2, &answer, "409", Some("in-progress"), Replayed::No)?;
        let after = answer.header("retry-after").ok_or("attempt 2: the 409 says no Retry-After")?;
        self.note(&answer.status, &format!("code in-progress, Retry-After: {after}"))
    }

    async fn retry_after_the_end(&self) -> Outcome<Value> {
        self.begin(3, "She waits as told, and retries with the same key.")?;
        let started = Instant::now();
        loop {
            let answer = self.payment(&self.ada, 1999, FIRST_ATTEMPT_TAKES).answer(self.server).await?;
            match answer.header("retry-after").and_then(|seconds| seconds.parse().ok()) {
                Some(seconds) if answer.status.starts_with("409") && started.elapsed() < PATIENCE => {
                    sleep(Duration::from_secs(seconds)).await;
                }
                _ => {
                    expect(3, &answer, "201", None, Replayed::Yes)?;
                    self.note(&answer.status, "Idempotent-Replayed: true, the answer that was lost")?;
                    Self::show(&answer)?;
                    return Ok(answer.json());
                }
            }
        }
    }

    async fn other_request(&self) -> Outcome {
        self.begin(4, "By mistake she uses the same key to pay 29.99 USD.")?;
        let answer = self.payment(&self.ada, 2999, "tok_visa").answer(self.server).await?;
        expect(4, &answer, "422", Some("idempotency-key-reuse"), Replayed::No)?;
        self.note(&answer.status, "code idempotency-key-reuse, nothing is charged")
    }

    async fn other_account(&self) -> Outcome {
        self.begin(5, "Grace happens to use that key for a payment of her own.")?;
        let answer = self.payment(&self.grace, 1999, "tok_visa").answer(self.server).await?;
        expect(5, &answer, "201", None, Replayed::No)?;
        self.note(&answer.status, "a new payment: keys belong to an account")?;
        Self::show(&answer)
    }

    /// The sum of it all, against what the server has.
    async fn count(&self, replayed: &Value) -> Outcome {
        let (ada, grace, runs) =
            (self.payments(&self.ada).await?, self.payments(&self.grace).await?, self.runs().await?);
        if ada["data"] != json!([replayed]) || ada["count"] != 1 || grace["count"] != 1 || runs != 2 {
            let found = format!("Ada has {ada}, Grace has {grace}, the handler ran {runs} times");
            return Err(format!("there should be one payment for each account and two runs, but {found}").into());
        }
        say("\nFive attempts, 2 payments: 1 of Ada's, 1 of Grace's. The handler ran 2 times.\n")
    }

    fn payment<'d>(&'d self, account: &'d str, amount: u64, source: &str) -> Request<'d> {
        let body = json!({ "amount": amount, "currency": "USD", "source": source }).to_string();
        Request { account, key: Some(&self.key), body: Some(body), path: "/payments" }
    }

    async fn payments(&self, account: &str) -> Outcome<Value> {
        let request = Request { account, key: None, body: None, path: "/payments" };
        Ok(request.answer(self.server).await?.json())
    }

    async fn runs(&self) -> Outcome<u64> {
        let request = Request { account: &self.ada, key: None, body: None, path: "/runs" };
        let answer = request.answer(self.server).await?;
        answer.json()["runs"].as_u64().ok_or_else(|| "GET /runs answers without a number".into())
    }

    fn begin(&self, attempt: u8, what: &str) -> Outcome {
        say(&format!("        |\n{:5.2} s o- {attempt}. {what}", self.since.elapsed().as_secs_f64()))
    }

    fn note(&self, answer: &str, what: &str) -> Outcome {
        say(&format!("{:5.2} s |     {answer:<24}  {what}", self.since.elapsed().as_secs_f64()))
    }

    fn show(answer: &Answer) -> Outcome {
        say(&format!("        |     {}", answer.body))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Replayed {
    Yes,
    No,
}

fn expect(attempt: u8, answer: &Answer, status: &str, code: Option<&str>, replayed: Replayed) -> Outcome {
    let marked = if answer.header("idempotent-replayed") == Some("true") { Replayed::Yes } else { Replayed::No };
    if answer.status.starts_with(status) && answer.json()["code"].as_str() == code && marked == replayed {
        return Ok(());
    }
    let code = code.map(|code| format!(", code {code}")).unwrap_or_default();
    let replay = if replayed == Replayed::Yes { ", replayed" } else { ", not replayed" };
    Err(format!("attempt {attempt} should be answered {status}{code}{replay}, but it was {answer:?}").into())
}

fn say(line: &str) -> Outcome {
    Ok(writeln!(io::stdout(), "{line}")?)
}

/// Every `RandomState` of the standard library is seeded anew; good enough to tell runs of a demo apart.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
