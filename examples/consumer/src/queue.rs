//! A small queue in the database. A worker leases a job, and a dead worker's job is delivered again after its lease.
//! The queue knows nothing about idem. Any queue that delivers at least once can replace it.

use scaffold::program::Outcome;
use sqlx::{AssertSqlSafe, FromRow, Pool};

use super::{Db, NOW};

/// In milliseconds. A crash goes unnoticed for this long. It is short to keep the demo short.
const LEASE: i64 = 1_000;

/// One delivery of a message.
#[derive(FromRow)]
pub(crate) struct Job {
    number: i64,
    /// The message's id. The sender sets it.
    pub(crate) message: String,
    pub(crate) body: String,
    /// The number of deliveries, including this one.
    pub(crate) deliveries: i64,
}

pub(crate) struct Queue {
    pool: Pool<Db>,
    name: String,
}

impl Queue {
    pub(crate) fn new(pool: Pool<Db>, name: &str) -> Self {
        Self { pool, name: name.to_owned() }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) async fn send(&self, message: &str, body: &str) -> Outcome {
        let insert = sqlx::query("INSERT INTO jobs (queue, message, body) VALUES ($1, $2, $3)");
        insert.bind(&self.name).bind(message).bind(body).execute(&self.pool).await?;
        Ok(())
    }

    /// Leases a free job. If two workers select the same job, the second one finds it leased and takes nothing.
    pub(crate) async fn take(&self) -> Outcome<Option<Job>> {
        let free = format!("queue = $1 AND state = 'waiting' AND leased_until <= {NOW}");
        let take = format!(
            "UPDATE jobs SET leased_until = {NOW} + $2, deliveries = deliveries + 1 \
              WHERE number = (SELECT number FROM jobs WHERE {free} ORDER BY leased_until, number LIMIT 1) AND {free} \
             RETURNING number, message, body, deliveries"
        );
        let take = sqlx::query_as(AssertSqlSafe(take)).bind(&self.name).bind(LEASE);
        Ok(take.fetch_optional(&self.pool).await?)
    }

    pub(crate) async fn acknowledge(&self, job: &Job) -> Outcome {
        self.end(job, "acknowledged").await
    }

    /// Leaves a job to a person.
    pub(crate) async fn put_aside(&self, job: &Job) -> Outcome {
        self.end(job, "aside").await
    }

    async fn end(&self, job: &Job, state: &str) -> Outcome {
        let update = sqlx::query("UPDATE jobs SET state = $1 WHERE number = $2");
        update.bind(state).bind(job.number).execute(&self.pool).await?;
        Ok(())
    }

    /// Ends the lease at once.
    pub(crate) async fn give_back(&self, job: &Job) -> Outcome {
        let update = format!("UPDATE jobs SET leased_until = {NOW} WHERE number = $1");
        sqlx::query(AssertSqlSafe(update)).bind(job.number).execute(&self.pool).await?;
        Ok(())
    }
}
