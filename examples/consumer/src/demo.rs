//! Workers that are killed by SIGKILL, in the middle of an effect and just before they could acknowledge it.
//! In the end each order has one shipment and the stock is right, or the demo fails.

use std::{
    collections::{BTreeMap, BTreeSet, hash_map::RandomState},
    env, fs,
    hash::{BuildHasher as _, Hasher as _},
    io::{self, Write as _},
    process::Stdio,
    time::{Duration, Instant},
};

use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    sync::mpsc,
    time::timeout,
};

use crate::{Outcome, is_postgres, postgres, sqlite, variable, worker::Seen};

const WORKERS: usize = 3;
const KILLS: usize = 8;
const ORDERS: i64 = 14;
const STOCK: i64 = 1_000;

/// After this, what should long have happened counts as not happening.
const PATIENCE: Duration = Duration::from_mins(1);

/// How often the queue is looked at when nobody says anything.
const PAUSE: Duration = Duration::from_millis(100);

/// On the database of `DATABASE_URL`, or on a temporary one.
pub(crate) async fn run() -> Outcome {
    let seed = variable("SEED").map_or_else(|| Ok(random() & 0xffff_ffff), |seed| seed.parse())?;
    if let Some(url) = variable("DATABASE_URL") {
        return on(&url, seed).await;
    }
    let folder = env::temp_dir().join(format!("example-consumer-demo-{:016x}", random()));
    fs::create_dir(&folder)?;
    let ended = on(&format!("sqlite://{}", folder.join("queue.db").display()), seed).await;
    fs::remove_dir_all(&folder)?;
    ended
}

async fn on(url: &str, seed: u64) -> Outcome {
    // A queue of this run's own, so that a database with other queues in it does not change the numbers.
    let queue = format!("orders-{:08x}", random() & 0xffff_ffff);
    let orders = orders();
    let database = Database::prepare(url, &queue).await?;
    database.fill(&orders).await?;
    say(&format!(
        "\n{} jobs: {ORDERS} orders, 3 of them sent twice. {WORKERS} workers, of whom up to {KILLS} are killed (SEED={seed}).\n",
        orders.len()
    ))?;
    let mut demo = Demo::new(url, &queue, seed);
    demo.tell(&database).await?;
    demo.check(database.look().await?)
}

/// Messages and their bodies.
fn orders() -> Vec<(String, String)> {
    let order = |number: i64| {
        let body = match number {
            3 => json!({ "quantity": number, "takes": 40, "refused_at_first": true }),
            // Longer than its lease, so that another worker gets it too.
            5 => json!({ "quantity": number, "takes": 1300 }),
            _ => json!({ "quantity": number, "takes": 40 + 10 * (number % 4) }),
        };
        (format!("order-{number:02}"), body.to_string())
    };
    let mut orders: Vec<_> = (1..=ORDERS).map(order).collect();
    orders.extend([2, 7, 11].map(order));
    orders
}

/// Another order, by mistake under the id of the first.
fn mistaken() -> (String, String) {
    ("order-01".to_owned(), json!({ "quantity": 500, "takes": 40 }).to_string())
}

/// The queue, on either database.
enum Database {
    Postgres(postgres::mount::Mounted),
    Sqlite(sqlite::mount::Mounted),
}

impl Database {
    async fn prepare(url: &str, queue: &str) -> Outcome<Self> {
        Ok(if is_postgres(url) {
            Self::Postgres(postgres::mount::Mounted::prepare(url, queue).await?)
        } else {
            Self::Sqlite(sqlite::mount::Mounted::prepare(url, queue).await?)
        })
    }

    async fn fill(&self, orders: &[(String, String)]) -> Outcome {
        match self {
            Self::Postgres(database) => database.fill(STOCK, orders).await,
            Self::Sqlite(database) => database.fill(STOCK, orders).await,
        }
    }

    async fn send(&self, (message, body): (String, String)) -> Outcome {
        match self {
            Self::Postgres(database) => database.queue.send(&message, &body).await?,
            Self::Sqlite(database) => database.queue.send(&message, &body).await?,
        }
        Ok(())
    }

    async fn look(&self) -> Outcome<Seen> {
        match self {
            Self::Postgres(database) => database.look().await,
            Self::Sqlite(database) => database.look().await,
        }
    }
}

struct Demo {
    url: String,
    queue: String,
    random: Random,
    since: Instant,
    said: mpsc::UnboundedSender<(usize, String)>,
    hears: mpsc::UnboundedReceiver<(usize, String)>,
    workers: BTreeMap<usize, Child>,
    started: usize,
    killed: usize,
    killed_in_the_middle: usize,
    /// The orders whose worker was killed between effect and acknowledgement.
    unacknowledged: BTreeSet<String>,
    /// The orders that were met again.
    already: BTreeSet<String>,
}

impl Demo {
    fn new(url: &str, queue: &str, seed: u64) -> Self {
        let (said, hears) = mpsc::unbounded_channel();
        Self {
            url: url.to_owned(),
            queue: queue.to_owned(),
            random: Random(seed),
            since: Instant::now(),
            said,
            hears,
            workers: BTreeMap::new(),
            started: 0,
            killed: 0,
            killed_in_the_middle: 0,
            unacknowledged: BTreeSet::new(),
            already: BTreeSet::new(),
        }
    }

    /// Lets workers work, and kills some, until the queue is empty.
    async fn tell(&mut self, database: &Database) -> Outcome {
        for _ in 0..WORKERS {
            self.start()?;
        }
        let mut last = Some(mistaken());
        loop {
            match timeout(PAUSE, self.hears.recv()).await {
                Ok(Some((worker, line))) => self.heard(worker, &line).await?,
                _ if database.look().await?.waiting == 0 => match last.take() {
                    Some(mistaken) => database.send(mistaken).await?,
                    None => return Ok(()),
                },
                _ if self.since.elapsed() > PATIENCE => return Err("the queue does not become empty".into()),
                _ => {
                    // A worker that failed by itself has said so on stderr.
                    self.workers.retain(|_, worker| matches!(worker.try_wait(), Ok(None)));
                    if self.workers.is_empty() {
                        return Err("no worker is left".into());
                    }
                }
            }
        }
    }

    fn start(&mut self) -> Outcome {
        self.started += 1;
        let (number, said) = (self.started, self.said.clone());
        let mut command = Command::new(env::current_exe()?);
        command.args(["work", &self.queue]).env("DATABASE_URL", &self.url);
        let mut worker = command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let lines = worker.stdout.take().ok_or("no pipe from the worker")?;
        tokio::spawn(async move {
            let mut lines = BufReader::new(lines).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                if said.send((number, line)).is_err() {
                    return;
                }
            }
        });
        self.workers.insert(number, worker);
        Ok(())
    }

    /// Shows what a worker says, and perhaps kills it for that.
    async fn heard(&mut self, worker: usize, line: &str) -> Outcome {
        self.note(worker, line)?;
        let order = line.split(' ').next().unwrap_or_default().to_owned();
        let (runs, shipped) = (line.ends_with(": runs"), line.contains(": shipped as "));
        if line.contains(": already shipped as ") {
            self.already.insert(order);
            return Ok(());
        }
        // Once in each of the two places; for the rest it is chance.
        let chosen = match (runs, shipped) {
            (true, _) => self.killed_in_the_middle == 0 || self.random.below(4) == 0,
            (_, true) => self.unacknowledged.is_empty() || self.random.below(4) == 0,
            _ => false,
        };
        // What it said before it was killed may be heard later.
        if !chosen || self.killed >= KILLS || !self.workers.contains_key(&worker) {
            return Ok(());
        }
        if let Some(mut child) = self.workers.remove(&worker) {
            child.kill().await?;
        }
        self.killed += 1;
        if shipped {
            self.unacknowledged.insert(order);
            self.note(worker, "SIGKILL, before it could acknowledge")?;
        } else {
            self.killed_in_the_middle += 1;
            self.note(worker, "SIGKILL, in the middle of the shipment")?;
        }
        self.start()
    }

    /// Each order once, and nothing else.
    fn check(&self, seen: Seen) -> Outcome {
        let right =
            Seen { waiting: 0, aside: 1, shipments: ORDERS, shipped: ORDERS, stock: STOCK - ORDERS * (ORDERS + 1) / 2 };
        if seen != right {
            return Err(format!("the queue should have come to {right:?}, and it came to {seen:?}").into());
        }
        if self.killed_in_the_middle == 0 || self.unacknowledged.is_empty() {
            return Err("no worker was killed in one of the two places".into());
        }
        say(&format!(
            "\n{} workers killed, {} of them between effect and acknowledgement. {ORDERS} orders, {} shipments, {} left in stock: \
             each order once. {} orders came again and were not shipped again; 1 message is put aside.\n",
            self.killed,
            self.unacknowledged.len(),
            seen.shipments,
            seen.stock,
            self.already.len()
        ))
    }

    fn note(&self, worker: usize, what: &str) -> Outcome {
        say(&format!("{:5.2} s | worker {worker:<2}  {what}", self.since.elapsed().as_secs_f64()))
    }
}

fn say(line: &str) -> Outcome {
    Ok(writeln!(io::stdout(), "{line}")?)
}

/// `SplitMix64`: the same choices for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

/// Every `RandomState` of the standard library is seeded anew; good enough to tell runs of a demo apart.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
