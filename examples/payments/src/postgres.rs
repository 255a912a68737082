//! The application on PostgreSQL: its connection, its tables, and the handlers mounted for it.
//! Several processes may start on one database at the same moment.

use std::time::Duration;

use sqlx::{Connection as _, postgres::PgPoolOptions};
pub(crate) use sqlx::{PgConnection as Connection, Postgres as Db};

use crate::server::ServerError;

#[expect(clippy::duplicate_mod, reason = "one source, a mount for each database")]
#[path = "handlers.rs"]
pub(crate) mod handlers;

/// The application's own tables; idem's are beside them. Real applications have migrations here.
///
/// Sent as one message, and so one transaction: the lock keeps a second process out until the tables are there.
const TABLES: &str = "\
    SELECT pg_advisory_xact_lock(hashtext('example-payments'));
    CREATE TABLE IF NOT EXISTS payments (
        number      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        id          text   NOT NULL UNIQUE DEFAULT 'pay_' || replace(gen_random_uuid()::text, '-', ''),
        account     text   NOT NULL,
        amount      bigint NOT NULL CHECK (amount > 0),
        currency    text   NOT NULL,
        source      text   NOT NULL,
        status      text   NOT NULL DEFAULT 'succeeded',
        description text
    );
    CREATE INDEX IF NOT EXISTS payments_account ON payments (account, number);
    CREATE TABLE IF NOT EXISTS refunds (
        id          text   PRIMARY KEY DEFAULT 'ref_' || replace(gen_random_uuid()::text, '-', ''),
        payment     text   NOT NULL REFERENCES payments (id),
        amount      bigint NOT NULL,
        currency    text   NOT NULL,
        status      text   NOT NULL DEFAULT 'succeeded'
    )";

pub(crate) async fn open(url: &str) -> Result<handlers::App, ServerError> {
    // A pool goes on trying for half a minute, and then cannot say what was wrong.
    Connection::connect(url).await?.close().await?;
    // A client that is to be told 503 should not have to wait for it; sqlx's default is half a minute.
    let pool = PgPoolOptions::new().acquire_timeout(Duration::from_secs(5)).connect(url).await?;
    handlers::App::open(pool, TABLES).await
}
