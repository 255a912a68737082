//! What an application writes: one effect for each message. `Connection` is `SqliteConnection` in `sqlite.rs`,
//! `PgConnection` in `postgres.rs`: the example runs on both, your own code names one.

use std::time::Duration;

use idem_runtime::{
    Idempotency, idempotent,
    messages::{ConsumeError, Once},
};
use serde::Deserialize;
use tokio::time::sleep;

use super::{
    Connection, Db,
    queue::{Job, Queue},
};
use crate::worker::Journal;

/// An order, as it stands in a message.
#[derive(Deserialize)]
struct Order {
    quantity: i64,
    /// How long its shipment takes, in milliseconds.
    takes: u64,
    /// Whether the carrier refuses it when it comes first.
    #[serde(default)]
    refused_at_first: bool,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ShipError {
    #[error("the message is no order")]
    NoOrder(#[from] serde_json::Error),
    #[error("the carrier refused it")]
    Refused,
    #[error("the database failed")]
    Database(#[from] sqlx::Error),
}

/// Ships an order: a row of the shipment, and the stock that is left. It says which shipment it is.
///
/// Queues deliver at least once, so this may be called again for the same message, also after a crash. It runs once: the
/// shipment, the stock and the message's id are committed together.
#[idempotent(scope = queue, key = job.message, payload = job.body, retention = "14d")]
async fn ship(queue: &str, job: &Job, journal: &Journal, tx: &mut Connection) -> Result<i64, ShipError> {
    let order: Order = serde_json::from_str(&job.body)?;
    journal.say(job, "runs");
    let shipment =
        sqlx::query_scalar("INSERT INTO shipments (queue, message, quantity) VALUES ($1, $2, $3) RETURNING number")
            .bind(queue)
            .bind(&job.message)
            .bind(order.quantity)
            .fetch_one(&mut *tx)
            .await?;
    sleep(Duration::from_millis(order.takes)).await;
    if order.refused_at_first && job.deliveries == 1 {
        return Err(ShipError::Refused);
    }
    sqlx::query("UPDATE stock SET remaining = remaining - $1 WHERE queue = $2")
        .bind(order.quantity)
        .bind(queue)
        .execute(tx)
        .await?;
    Ok(shipment)
}

/// What the worker does with one delivery: acknowledge it only when the effect is known to be committed.
pub(crate) async fn handle(
    idempotency: &Idempotency<Db>,
    queue: &Queue,
    job: &Job,
    journal: &Journal,
) -> Result<(), sqlx::Error> {
    match ship(idempotency, queue.name(), job, journal).await {
        Ok(Once::Ran(shipment)) => {
            journal.say(job, &format!("shipped as {shipment}"));
            // Long enough to be killed in: the effect is there, and the queue does not know.
            sleep(Duration::from_millis(60)).await;
            queue.acknowledge(job).await
        }
        Ok(Once::AlreadyDone(shipment)) => {
            journal.say(job, &format!("already shipped as {shipment}"));
            queue.acknowledge(job).await
        }
        // Its end is not known yet: the queue delivers it again when the lease is over.
        Err(ConsumeError::InProgress) => {
            journal.say(job, "is in progress elsewhere");
            Ok(())
        }
        // No redelivery makes these right: for a person to look at.
        Err(
            why @ (ConsumeError::OtherMessage
            | ConsumeError::NoId
            | ConsumeError::Value(_)
            | ConsumeError::Failed(ShipError::NoOrder(_))),
        ) => {
            journal.say(job, &format!("is put aside: {why}"));
            queue.put_aside(job).await
        }
        // Rolled back.
        Err(why) => {
            journal.say(job, &format!("failed, and is to be delivered again: {why}"));
            queue.give_back(job).await
        }
    }
}
