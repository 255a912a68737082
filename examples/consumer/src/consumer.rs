//! The consumer: one effect for each message. `Db` and `Connection` are sqlx's `Sqlite` and `SqliteConnection`, the default
//! database. `main.rs` also compiles this file for PostgreSQL. Your code names one database.

use std::{
    io::{self, Write as _},
    time::Duration,
};

use idem_runtime::{
    Idempotency, idempotent,
    messages::{ConsumeError, Once},
};
use scaffold::program::Outcome;
use serde::Deserialize;
use sqlx::Pool;
use tokio::time::sleep;

use super::{
    Connection, Db,
    queue::{Job, Queue},
};

/// How long a worker waits if there is no job.
const PAUSE: Duration = Duration::from_millis(40);

/// The body of a message.
#[derive(Deserialize)]
struct Order {
    quantity: i64,
    /// How long the shipment takes, in milliseconds.
    takes: u64,
    /// Whether the carrier refuses the first delivery.
    #[serde(default)]
    refused_at_first: bool,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ShipError {
    #[error("the message is not an order")]
    NoOrder(#[from] serde_json::Error),
    #[error("the carrier refused it")]
    Refused,
    #[error("the database failed")]
    Database(#[from] sqlx::Error),
}

/// Ships an order: it inserts the shipment and reduces the stock. Returns the shipment's number.
///
/// Queues deliver at least once, so a worker may call this again for the same message, for example after a crash. The effect
/// happens once: the shipment, the stock and the message's id commit together.
#[idempotent(scope = queue, key = job.message, payload = job.body, retention = "14d")]
async fn ship(queue: &str, job: &Job, tx: &mut Connection) -> Result<i64, ShipError> {
    let order: Order = serde_json::from_str(&job.body)?;
    report(job, "runs");
    let insert = "INSERT INTO shipments (queue, message, quantity) VALUES ($1, $2, $3) RETURNING number";
    let insert = sqlx::query_scalar(insert).bind(queue).bind(&job.message).bind(order.quantity);
    let shipment = insert.fetch_one(&mut *tx).await?;
    sleep(Duration::from_millis(order.takes)).await;
    if order.refused_at_first && job.deliveries == 1 {
        return Err(ShipError::Refused);
    }
    let update = sqlx::query("UPDATE stock SET remaining = remaining - $1 WHERE queue = $2");
    update.bind(order.quantity).bind(queue).execute(tx).await?;
    Ok(shipment)
}

/// Takes job after job until the process is killed.
pub(crate) async fn work(pool: Pool<Db>, queue: &str) -> Outcome {
    let idempotency = Idempotency::builder(pool.clone()).build();
    let queue = Queue::new(pool, queue);
    loop {
        match queue.take().await? {
            Some(job) => handle(&idempotency, &queue, &job).await?,
            None => sleep(PAUSE).await,
        }
    }
}

/// Handles one delivery. Acknowledges it only after the effect is committed.
async fn handle(idempotency: &Idempotency<Db>, queue: &Queue, job: &Job) -> Outcome {
    match ship(idempotency, queue.name(), job).await {
        Ok(Once::Ran(shipment)) => {
            report(job, &format!("shipped as {shipment}"));
            // The effect is committed, and the queue does not know it yet. The demo needs time to kill the worker here.
            sleep(Duration::from_millis(60)).await;
            queue.acknowledge(job).await
        }
        Ok(Once::AlreadyDone(shipment)) => {
            report(job, &format!("already shipped as {shipment}"));
            queue.acknowledge(job).await
        }
        // Another worker ships it now. The queue delivers it again after the lease.
        Err(ConsumeError::InProgress) => {
            report(job, "is in progress in another worker");
            Ok(())
        }
        // A redelivery cannot fix these. A person must look at the message.
        Err(
            error @ (ConsumeError::OtherMessage
            | ConsumeError::NoId
            | ConsumeError::Value(_)
            | ConsumeError::Failed(ShipError::NoOrder(_))),
        ) => {
            report(job, &format!("is put aside: {error}"));
            queue.put_aside(job).await
        }
        // Rolled back.
        Err(error) => {
            report(job, &format!("failed and will be delivered again: {error}"));
            queue.give_back(job).await
        }
    }
}

/// Prints a line about a delivery. The demo reads it. A closed pipe does not stop the worker.
fn report(job: &Job, what: &str) {
    let _closed = writeln!(io::stdout(), "{} delivery {}: {what}", job.message, job.deliveries);
}
