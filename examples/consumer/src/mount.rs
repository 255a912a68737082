//! One database's worth of the program: open it, fill the queue, work, and see what came of it.
//! Mounted once for each database, as the consumer and the queue are.

use std::time::Duration;

use idem_runtime::Idempotency;
use sqlx::Pool;
use tokio::time::sleep;

use super::{Db, TABLES, consumer, pool, queue::Queue};
use crate::{
    Outcome,
    worker::{Journal, Seen},
};

/// Nothing to do: how long until the next look.
const PAUSE: Duration = Duration::from_millis(40);

pub(crate) struct Mounted {
    pool: Pool<Db>,
    pub(crate) queue: Queue,
}

impl Mounted {
    /// Creates what tables are missing, the application's and idem's.
    pub(crate) async fn prepare(url: &str, queue: &str) -> Outcome<Self> {
        let pool = pool(url).await?;
        sqlx::raw_sql(TABLES).execute(&pool).await?;
        Idempotency::builder(pool.clone()).build().migrate().await?;
        Ok(Self { queue: Queue::new(pool.clone(), queue), pool })
    }

    /// Puts the orders into the queue, and so much into stock.
    pub(crate) async fn fill(&self, stock: i64, orders: &[(String, String)]) -> Outcome {
        let insert = sqlx::query("INSERT INTO stock (queue, remaining) VALUES ($1, $2)");
        insert.bind(self.queue.name()).bind(stock).execute(&self.pool).await?;
        for (message, body) in orders {
            self.queue.send(message, body).await?;
        }
        Ok(())
    }

    /// What there is now.
    pub(crate) async fn look(&self) -> Outcome<Seen> {
        let count = async |sql| -> Result<i64, sqlx::Error> {
            sqlx::query_scalar(sql).bind(self.queue.name()).fetch_one(&self.pool).await
        };
        Ok(Seen {
            waiting: count("SELECT count(*) FROM jobs WHERE queue = $1 AND state = 'waiting'").await?,
            aside: count("SELECT count(*) FROM jobs WHERE queue = $1 AND state = 'aside'").await?,
            shipments: count("SELECT count(*) FROM shipments WHERE queue = $1").await?,
            shipped: count("SELECT count(DISTINCT message) FROM shipments WHERE queue = $1").await?,
            stock: count("SELECT remaining FROM stock WHERE queue = $1").await?,
        })
    }
}

/// Takes job after job, until the process is killed.
pub(crate) async fn work(url: &str, queue: &str) -> Outcome {
    let pool = pool(url).await?;
    let idempotency = Idempotency::builder(pool.clone()).build();
    let (queue, journal) = (Queue::new(pool, queue), Journal::new());
    loop {
        match queue.take().await? {
            Some(job) => consumer::handle(&idempotency, &queue, &job, &journal).await?,
            None => sleep(PAUSE).await,
        }
    }
}
