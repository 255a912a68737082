//! One charge, one crash: the app is killed between the charge and the record, and what follows is printed as a timeline.
//! Every line is checked, so the demo fails where the guarantee does.

mod programs;

use std::{
    collections::hash_map::RandomState,
    env, fs,
    hash::{BuildHasher as _, Hasher as _},
    io::{self, Write as _},
    path::Path,
    time::{Duration, Instant},
};

use programs::{Answer, Client, Program};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::program::{Outcome, announce, variable};

/// After this, what should long have happened counts as not happening.
const PATIENCE: Duration = Duration::from_secs(30);

/// On the database of `DATABASE_URL`, or on a temporary one. The network's ledger is always a temporary one.
pub(crate) async fn run() -> Outcome {
    let folder = env::temp_dir().join(format!("example-charges-demo-{:016x}", random()));
    fs::create_dir(&folder)?;
    let told = in_folder(&folder).await;
    fs::remove_dir_all(&folder)?;
    told
}

async fn in_folder(folder: &Path) -> Outcome {
    let file = |name: &str| format!("sqlite://{}", folder.join(name).display());
    let network = Program::start(&["card-network"], &[("LEDGER", &file("ledger.db"))]).await?;
    let database = variable("DATABASE_URL", &file("charges.db"));
    let app = App { database, network: network.url() };
    let first = app.start().await?;
    announce(first.address)?;
    Demo::new(app, network.url())?.tell(first).await?;
    network.stop().await
}

/// How to start the app, which happens twice.
struct App {
    database: String,
    network: String,
}

impl App {
    async fn start(&self) -> Outcome<Program> {
        Program::start(&[], &[("DATABASE_URL", &self.database), ("NETWORK", &self.network)]).await
    }
}

struct Demo {
    app: App,
    network: String,
    http: Client,
    since: Instant,
    key: String,
    /// An account of this run's own, so that a database with other charges in it does not change the numbers.
    ada: String,
}

impl Demo {
    fn new(app: App, network: String) -> Outcome<Self> {
        let key = format!("order-{:016x}", random());
        let ada = format!("ada-{:04x}", random() & 0xffff);
        Ok(Self { app, network, http: Client::new()?, since: Instant::now(), key, ada })
    }

    async fn tell(&self, app: Program) -> Outcome {
        say(&format!("\nOne charge, one crash. Every request of Ada's carries\nIdempotency-Key: {}", self.key))?;
        let charged = self.charged_and_killed(app).await?;
        let app = self.app.start().await?;
        self.retry_at_once(&app).await?;
        let replayed = self.retry_as_told(&app, &charged).await?;
        self.retry_again(&app, &replayed).await?;
        self.count(&app, &charged, &replayed).await?;
        app.stop().await
    }

    async fn charged_and_killed(&self, app: Program) -> Outcome<Value> {
        self.begin(1, "Ada pays 19.99 USD. The card network charges her, and does not answer.")?;
        self.http.post(&format!("{}/control", self.network), &[], &json!({ "next": "hold-answer" })).await?;
        let request = self.charge(&app);
        let answer = tokio::spawn(async move { request.await.is_ok() });
        let charged = self.one_in_the_ledger().await?;
        let (id, key) = (text(&charged, "id"), text(&charged, "key"));
        self.note("charged", &format!("{id}, under the derived key {key}"))?;

        self.begin(2, "In this moment the app is killed: SIGKILL, after the charge and before the record.")?;
        app.kill().await?;
        if answer.await? {
            return Err("step 2: a killed app answered".into());
        }
        self.note("no answer", "the money is gone, and the app's database knows nothing of it")?;
        Ok(charged)
    }

    async fn retry_at_once(&self, app: &Program) -> Outcome {
        self.begin(3, "The app starts again, and Ada retries at once.")?;
        let answer = self.charge(app).await?;
        expect(3, &answer, 409, Some("in-progress"), Replayed::No)?;
        let after = answer.header("retry-after").ok_or("step 3: the 409 says no Retry-After")?;
        self.note(
            &answer.status(),
            &format!("code in-progress, Retry-After: {after}. Nobody knows yet, so nothing runs"),
        )
    }

    async fn retry_as_told(&self, app: &Program, charged: &Value) -> Outcome<Answer> {
        self.begin(4, "She waits as told. Recovery asks the network what became of that key, and writes it down.")?;
        let started = Instant::now();
        loop {
            let answer = self.charge(app).await?;
            match answer.header("retry-after").and_then(|seconds| seconds.parse().ok()) {
                Some(seconds) if answer.code == 409 && started.elapsed() < PATIENCE => {
                    // 0 is what is left of a lease that has run out; recovery comes once a second.
                    sleep(Duration::from_secs(seconds).max(Duration::from_millis(200))).await;
                }
                _ => {
                    expect(4, &answer, 201, None, Replayed::Yes)?;
                    if answer.json()["id"] != charged["id"] {
                        return Err(format!("step 4: this is another charge: {}", answer.body).into());
                    }
                    self.note(&answer.status(), "Idempotent-Replayed: true, the answer that was never sent")?;
                    say(&format!("        |     {}", answer.body))?;
                    return Ok(answer);
                }
            }
        }
    }

    async fn retry_again(&self, app: &Program, replayed: &Answer) -> Outcome {
        self.begin(5, "She retries once more, to be sure.")?;
        let answer = self.charge(app).await?;
        expect(5, &answer, 201, None, Replayed::Yes)?;
        if answer.body != replayed.body {
            return Err(format!("step 5: {} is not the answer of step 4", answer.body).into());
        }
        self.note(&answer.status(), "the same answer, byte for byte")
    }

    /// The sum of it all, against what the network, the database and the app have.
    async fn count(&self, app: &Program, charged: &Value, replayed: &Answer) -> Outcome {
        let ledger = self.http.get(&format!("{}/ledger", self.network), &[]).await?.json();
        let rows = self.http.get(&format!("{}/charges", app.url()), &self.headers()).await?.json();
        let runs = self.http.get(&format!("{}/runs", app.url()), &[]).await?.json();
        let same = json!([charged]) == ledger["data"] && json!([replayed.json()]) == rows["data"];
        if !same || ledger["count"] != 1 || rows["count"] != 1 || runs["runs"] != 0 {
            let found = format!("the ledger has {ledger}, the database {rows}, and {runs} since the restart");
            return Err(format!("there should be one charge, one row and no run after the crash, but {found}").into());
        }
        say("\nHowever often she asks: 1 charge in the network's ledger, 1 row in the app's database.\n\
             The handler ran 1 time; after the crash, 0 times.\n")
    }

    /// Waits until the network has charged, and holds the answer.
    async fn one_in_the_ledger(&self) -> Outcome<Value> {
        let started = Instant::now();
        while self.http.get(&format!("{}/control", self.network), &[]).await?.json()["holding"] != 1 {
            if started.elapsed() > PATIENCE {
                return Err("step 1: the network was not asked".into());
            }
            sleep(Duration::from_millis(5)).await;
        }
        let ledger = self.http.get(&format!("{}/ledger", self.network), &[]).await?.json();
        match ledger["data"].as_array().map(Vec::as_slice) {
            Some([charge]) => Ok(charge.clone()),
            _ => Err(format!("step 1: one charge was to be in the ledger: {ledger}").into()),
        }
    }

    fn charge(&self, app: &Program) -> impl Future<Output = Outcome<Answer>> + Send + use<> {
        let (http, url, headers) = (self.http.clone(), format!("{}/charges", app.url()), self.headers());
        async move {
            let body = json!({ "amount": 1999, "currency": "USD", "source": "tok_visa" });
            http.post(&url, &headers, &body).await
        }
    }

    fn headers(&self) -> [(&'static str, String); 2] {
        [("authorization", format!("Bearer {}", self.ada)), ("idempotency-key", self.key.clone())]
    }

    fn begin(&self, step: u8, what: &str) -> Outcome {
        say(&format!("        |\n{:5.2} s o- {step}. {what}", self.since.elapsed().as_secs_f64()))
    }

    fn note(&self, answer: &str, what: &str) -> Outcome {
        say(&format!("{:5.2} s |     {answer:<14}  {what}", self.since.elapsed().as_secs_f64()))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Replayed {
    Yes,
    No,
}

fn expect(step: u8, answer: &Answer, status: u16, code: Option<&str>, replayed: Replayed) -> Outcome {
    let marked = if answer.header("idempotent-replayed") == Some("true") { Replayed::Yes } else { Replayed::No };
    if answer.code == status && answer.json()["code"].as_str() == code && marked == replayed {
        return Ok(());
    }
    let code = code.map(|code| format!(", code {code}")).unwrap_or_default();
    let replay = if replayed == Replayed::Yes { ", replayed" } else { ", not replayed" };
    Err(format!("step {step} should be answered {status}{code}{replay}, but it was {answer:?}").into())
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

fn say(line: &str) -> Outcome {
    Ok(writeln!(io::stdout(), "{line}")?)
}

/// Every `RandomState` of the standard library is seeded anew; good enough to tell runs of a demo apart.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
