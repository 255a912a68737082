//! The application on PostgreSQL: its tables, and the handlers and reconcilers mounted for it.
//! Several processes may start on one database at the same moment.

use std::time::Duration;

pub(crate) use sqlx::Postgres as Db;
use sqlx::{Connection as _, PgConnection, postgres::PgPoolOptions};

use crate::{network::Network, server::ServerError};

#[expect(clippy::duplicate_mod, reason = "one source, a mount for each database")]
#[path = "handlers.rs"]
pub(crate) mod handlers;
#[expect(clippy::duplicate_mod, reason = "one source, a mount for each database")]
#[path = "recovery.rs"]
mod recovery;

/// The application's own tables; idem's are beside them. Real applications have migrations here.
///
/// Sent as one message, and so one transaction: the lock keeps a second process out until the tables are there.
const TABLES: &str = "\
    SELECT pg_advisory_xact_lock(hashtext('example-charges'));
    CREATE TABLE IF NOT EXISTS charges (
        number   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        id       text   NOT NULL UNIQUE,
        account  text   NOT NULL,
        amount   bigint NOT NULL CHECK (amount > 0),
        currency text   NOT NULL,
        source   text   NOT NULL
    );
    CREATE INDEX IF NOT EXISTS charges_account ON charges (account, number)";

pub(crate) async fn open(url: &str, network: Network) -> Result<handlers::App, ServerError> {
    // A pool goes on trying for half a minute, and then cannot say what was wrong.
    PgConnection::connect(url).await?.close().await?;
    // A client that is to be told 503 should not have to wait for it; sqlx's default is half a minute.
    let pool = PgPoolOptions::new().acquire_timeout(Duration::from_secs(5)).connect(url).await?;
    handlers::App::open(pool, TABLES, network).await
}
