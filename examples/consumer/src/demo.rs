//! Workers are killed by SIGKILL, in the middle of an effect and between the effect and its acknowledgement.
//! At the end each order has one shipment and the stock is right, or the demo fails.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use idem_runtime::Idempotency;
use scaffold::{
    demo::{Timeline, process::Child, random, say},
    program::{Outcome, variable},
};
use serde_json::json;
use sqlx::{FromRow, Pool};
use tokio::{sync::mpsc, time::timeout};

use super::{Db, queue::Queue};

const WORKERS: usize = 3;
const MAX_KILLS: usize = 8;
const ORDERS: i64 = 14;
const STOCK: i64 = 1_000;

/// A longer run means that the queue never becomes empty.
const TIME_LIMIT: Duration = Duration::from_mins(1);

/// How often the demo checks the queue while no worker prints a line.
const PAUSE: Duration = Duration::from_millis(100);

pub(crate) async fn run(pool: Pool<Db>, url: &str) -> Outcome {
    let seed = variable("SEED").map_or_else(|| Ok(random() & 0xffff_ffff), |seed| seed.parse())?;
    Idempotency::builder(pool.clone()).build().migrate().await?;
    // No other run uses this name: old queues in the database do not change the result.
    let queue = Queue::new(pool.clone(), &format!("orders-{:08x}", random() & 0xffff_ffff));
    let insert = sqlx::query("INSERT INTO stock (queue, remaining) VALUES ($1, $2)");
    insert.bind(queue.name()).bind(STOCK).execute(&pool).await?;
    let orders = orders();
    for (message, body) in &orders {
        queue.send(message, body).await?;
    }
    let timeline = Timeline::start(&format!(
        "{} jobs: {ORDERS} orders, 3 of them sent twice. {WORKERS} workers, up to {MAX_KILLS} of them are killed \
         (SEED={seed}).\n",
        orders.len()
    ))?;
    Demo::new(pool, url, queue, timeline, seed).show().await
}

/// Messages and their bodies.
fn orders() -> Vec<(String, String)> {
    let order = |number: i64| {
        let body = match number {
            3 => json!({ "quantity": number, "takes": 40, "refused_at_first": true }),
            // Longer than its lease, so a second worker gets it too.
            5 => json!({ "quantity": number, "takes": 1300 }),
            _ => json!({ "quantity": number, "takes": 40 + 10 * (number % 4) }),
        };
        (format!("order-{number:02}"), body.to_string())
    };
    let mut orders: Vec<_> = (1..=ORDERS).map(order).collect();
    orders.extend([2, 7, 11].map(order));
    orders
}

/// The result in the database.
#[derive(Debug, FromRow, PartialEq, Eq)]
struct Found {
    waiting: i64,
    aside: i64,
    shipments: i64,
    /// The number of different orders in the shipments.
    shipped: i64,
    stock: i64,
}

const FOUND: &str = "\
    SELECT (SELECT count(*) FROM jobs WHERE queue = $1 AND state = 'waiting') AS waiting, \
           (SELECT count(*) FROM jobs WHERE queue = $1 AND state = 'aside') AS aside, \
           (SELECT count(*) FROM shipments WHERE queue = $1) AS shipments, \
           (SELECT count(DISTINCT message) FROM shipments WHERE queue = $1) AS shipped, \
           (SELECT remaining FROM stock WHERE queue = $1) AS stock";

struct Demo {
    pool: Pool<Db>,
    url: String,
    queue: Queue,
    timeline: Timeline,
    choices: Choices,
    sender: mpsc::UnboundedSender<(usize, String)>,
    /// The lines of all workers.
    lines: mpsc::UnboundedReceiver<(usize, String)>,
    workers: BTreeMap<usize, Child>,
    started: usize,
    killed: usize,
    killed_in_the_middle: usize,
    /// The orders whose worker was killed between the effect and the acknowledgement.
    unacknowledged: BTreeSet<String>,
    /// The orders that were delivered again after their shipment.
    already_shipped: BTreeSet<String>,
}

impl Demo {
    fn new(pool: Pool<Db>, url: &str, queue: Queue, timeline: Timeline, seed: u64) -> Self {
        let (sender, lines) = mpsc::unbounded_channel();
        Self {
            pool,
            url: url.to_owned(),
            queue,
            timeline,
            choices: Choices(seed),
            sender,
            lines,
            workers: BTreeMap::new(),
            started: 0,
            killed: 0,
            killed_in_the_middle: 0,
            unacknowledged: BTreeSet::new(),
            already_shipped: BTreeSet::new(),
        }
    }

    /// Lets workers work, and kills some of them, until the queue is empty.
    async fn show(mut self) -> Outcome {
        for _ in 0..WORKERS {
            self.start()?;
        }
        // A different order under the id of the first one: a mistake of the sender.
        let mut mistake = Some(("order-01", json!({ "quantity": 500, "takes": 40 }).to_string()));
        loop {
            match timeout(PAUSE, self.lines.recv()).await {
                Ok(Some((worker, line))) => self.read(worker, &line).await?,
                _ if self.found().await?.waiting == 0 => match mistake.take() {
                    Some((message, body)) => self.queue.send(message, &body).await?,
                    None => return self.check().await,
                },
                _ if self.timeline.elapsed() > TIME_LIMIT => return Err("the queue does not become empty".into()),
                _ => {
                    // A worker that failed has printed its error on stderr.
                    self.workers.retain(|_, worker| worker.is_running());
                    if self.workers.is_empty() {
                        return Err("all workers failed".into());
                    }
                }
            }
        }
    }

    fn start(&mut self) -> Outcome {
        self.started += 1;
        let (worker, mut output) = Child::start(&["work", self.queue.name()], &[("DATABASE_URL", &self.url)])?;
        let (number, sender) = (self.started, self.sender.clone());
        tokio::spawn(async move {
            while let Ok(Some(line)) = output.next_line().await {
                if sender.send((number, line)).is_err() {
                    return;
                }
            }
        });
        self.workers.insert(number, worker);
        Ok(())
    }

    /// Shows a worker's line, and perhaps kills the worker.
    async fn read(&mut self, worker: usize, line: &str) -> Outcome {
        self.note(worker, line)?;
        let order = line.split(' ').next().unwrap_or_default().to_owned();
        let (runs, shipped) = (line.ends_with(": runs"), line.contains(": shipped as "));
        if line.contains(": already shipped as ") {
            self.already_shipped.insert(order);
            return Ok(());
        }
        // At least one kill in each of the two places. Chance decides about the others.
        let chosen = match (runs, shipped) {
            (true, _) => self.killed_in_the_middle == 0 || self.choices.below(4) == 0,
            (_, true) => self.unacknowledged.is_empty() || self.choices.below(4) == 0,
            _ => false,
        };
        if !chosen || self.killed >= MAX_KILLS {
            return Ok(());
        }
        // A line can arrive after its worker was killed.
        let Some(killed) = self.workers.remove(&worker) else { return Ok(()) };
        killed.kill().await?;
        self.killed += 1;
        if shipped {
            self.unacknowledged.insert(order);
            self.note(worker, "SIGKILL, before the acknowledgement")?;
        } else {
            self.killed_in_the_middle += 1;
            self.note(worker, "SIGKILL, in the middle of the shipment")?;
        }
        self.start()
    }

    /// Each order is shipped once, and nothing else happened.
    async fn check(&self) -> Outcome {
        let stock = STOCK - ORDERS * (ORDERS + 1) / 2;
        let expected = Found { waiting: 0, aside: 1, shipments: ORDERS, shipped: ORDERS, stock };
        let found = self.found().await?;
        if found != expected {
            return Err(format!("expected {expected:?}, found {found:?}").into());
        }
        if self.killed_in_the_middle == 0 || self.unacknowledged.is_empty() {
            return Err("no worker was killed in one of the two places".into());
        }
        say(&format!(
            "\n{} workers killed, {} of them between the effect and the acknowledgement. {ORDERS} orders, {} shipments, \
             {} left in stock: each order once. {} orders were delivered again and not shipped again. 1 message is put \
             aside.\n",
            self.killed,
            self.unacknowledged.len(),
            found.shipments,
            found.stock,
            self.already_shipped.len()
        ))
    }

    async fn found(&self) -> Outcome<Found> {
        Ok(sqlx::query_as(FOUND).bind(self.queue.name()).fetch_one(&self.pool).await?)
    }

    fn note(&self, worker: usize, what: &str) -> Outcome {
        self.timeline.note(&format!("worker {worker}"), what)
    }
}

/// Random choices (`SplitMix64`). The same seed gives the same choices.
struct Choices(u64);

impl Choices {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}
