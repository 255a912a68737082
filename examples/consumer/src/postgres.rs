//! The queue and its consumer on PostgreSQL.
//! Several processes may start on one database at the same moment.

use std::time::Duration;

use sqlx::{Connection as _, PgPool, postgres::PgPoolOptions};
pub(crate) use sqlx::{PgConnection as Connection, Postgres as Db};

#[expect(clippy::duplicate_mod, reason = "one source, a mount for each database")]
#[path = "consumer.rs"]
pub(crate) mod consumer;
#[expect(clippy::duplicate_mod, reason = "one source, a mount for each database")]
#[path = "mount.rs"]
pub(crate) mod mount;
#[expect(clippy::duplicate_mod, reason = "one source, a mount for each database")]
#[path = "queue.rs"]
pub(crate) mod queue;

/// Sent as one message, and so one transaction: the lock keeps a second process out until the tables are there.
const TABLES: &str = "\
    SELECT pg_advisory_xact_lock(hashtext('example-consumer'));
    CREATE TABLE IF NOT EXISTS jobs (
        number       bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        queue        text        NOT NULL,
        message      text        NOT NULL,
        body         text        NOT NULL,
        state        text        NOT NULL DEFAULT 'waiting',
        leased_until timestamptz NOT NULL DEFAULT '-infinity',
        deliveries   bigint      NOT NULL DEFAULT 0
    );
    CREATE INDEX IF NOT EXISTS jobs_waiting ON jobs (queue, leased_until) WHERE state = 'waiting';
    CREATE TABLE IF NOT EXISTS shipments (
        number   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        queue    text   NOT NULL,
        message  text   NOT NULL,
        quantity bigint NOT NULL
    );
    CREATE TABLE IF NOT EXISTS stock (
        queue     text   PRIMARY KEY,
        remaining bigint NOT NULL
    )";

/// A lease of a second: here, that is also how long a crash goes unnoticed.
const TAKE: &str = "\
    UPDATE jobs SET leased_until = clock_timestamp() + interval '1 second', deliveries = deliveries + 1 \
     WHERE number = (SELECT number FROM jobs \
                      WHERE queue = $1 AND state = 'waiting' AND leased_until <= clock_timestamp() \
                      ORDER BY leased_until, number LIMIT 1 FOR UPDATE SKIP LOCKED) \
    RETURNING number, message, body, deliveries";

const GIVE_BACK: &str = "UPDATE jobs SET leased_until = clock_timestamp() WHERE number = $1";

async fn pool(url: &str) -> Result<PgPool, sqlx::Error> {
    // A pool goes on trying for half a minute, and then cannot say what was wrong.
    Connection::connect(url).await?.close().await?;
    PgPoolOptions::new().max_connections(2).acquire_timeout(Duration::from_secs(5)).connect(url).await
}
