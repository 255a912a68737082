//! A queue in the database, as simple as one can be: whoever takes a job holds it by a lease, and who dies keeps nothing.
//! It knows nothing of idem, and delivers at least once. Any queue that does will do in its place.

use sqlx::{FromRow, Pool};

use super::{Db, GIVE_BACK, TAKE};
use crate::worker::Delivery;

/// One delivery of a message.
#[derive(FromRow)]
pub(crate) struct Job {
    number: i64,
    /// The message's id, given by whoever sent it.
    pub(crate) message: String,
    pub(crate) body: String,
    /// How often it has been delivered, this time included.
    pub(crate) deliveries: i64,
}

impl Delivery for Job {
    fn message(&self) -> &str {
        &self.message
    }

    fn deliveries(&self) -> i64 {
        self.deliveries
    }
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

    pub(crate) async fn send(&self, message: &str, body: &str) -> Result<(), sqlx::Error> {
        let insert = sqlx::query("INSERT INTO jobs (queue, message, body) VALUES ($1, $2, $3)");
        insert.bind(&self.name).bind(message).bind(body).execute(&self.pool).await.map(drop)
    }

    /// Takes a job that nobody holds, for as long as a lease.
    pub(crate) async fn take(&self) -> Result<Option<Job>, sqlx::Error> {
        sqlx::query_as(TAKE).bind(&self.name).fetch_optional(&self.pool).await
    }

    pub(crate) async fn acknowledge(&self, job: &Job) -> Result<(), sqlx::Error> {
        self.end(job, "acknowledged").await
    }

    /// Leaves a job for a person.
    pub(crate) async fn put_aside(&self, job: &Job) -> Result<(), sqlx::Error> {
        self.end(job, "aside").await
    }

    async fn end(&self, job: &Job, state: &str) -> Result<(), sqlx::Error> {
        let update = sqlx::query("UPDATE jobs SET state = $1 WHERE number = $2");
        update.bind(state).bind(job.number).execute(&self.pool).await.map(drop)
    }

    /// Ends the lease at once.
    pub(crate) async fn give_back(&self, job: &Job) -> Result<(), sqlx::Error> {
        sqlx::query(GIVE_BACK).bind(job.number).execute(&self.pool).await.map(drop)
    }
}
