//! The network's own books, in one SQLite file. A charge is one statement that commits by itself before it is answered.
//! Declined charges are in the books too: a key that was declined stays declined.

use std::{str::FromStr as _, time::Duration};

use serde::{Deserialize, Serialize};
use sqlx::{
    FromRow, SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode},
};

const TABLES: &str = "\
    CREATE TABLE IF NOT EXISTS charges (
        number    INTEGER PRIMARY KEY,
        id        TEXT    NOT NULL UNIQUE DEFAULT ('ch_' || lower(hex(randomblob(12)))),
        status    TEXT    NOT NULL,
        amount    BIGINT  NOT NULL,
        currency  TEXT    NOT NULL,
        source    TEXT    NOT NULL,
        customer  TEXT,
        reference TEXT,
        key       TEXT    UNIQUE,
        requests  BIGINT  NOT NULL DEFAULT 1
    );
    CREATE INDEX IF NOT EXISTS charges_reference ON charges (reference)";

/// One statement, so that of twins with one key exactly one charges, and each gets the one row.
const CHARGE: &str = "\
    INSERT INTO charges (status, amount, currency, source, customer, reference, key) \
    VALUES ($1, $2, $3, $4, $5, $6, $7) \
    ON CONFLICT (key) DO UPDATE SET requests = requests + 1 \
    RETURNING *";

/// What is asked for.
#[derive(Clone, Deserialize)]
pub(super) struct NewCharge {
    amount: i64,
    currency: String,
    pub(super) source: String,
    customer: Option<String>,
    reference: Option<String>,
}

/// What is in the books.
#[derive(Serialize, FromRow)]
pub(super) struct Charge {
    id: String,
    pub(super) status: String,
    amount: i64,
    currency: String,
    // A token is as good as a card, so no answer contains it.
    #[serde(skip)]
    source: String,
    customer: Option<String>,
    reference: Option<String>,
    key: Option<String>,
    /// How often it was asked for with its key.
    requests: i64,
}

impl Charge {
    /// Whether this is the charge that was asked for, and not another one under the same key.
    pub(super) fn is(&self, new: &NewCharge) -> bool {
        self.amount == new.amount
            && self.currency == new.currency
            && self.source == new.source
            && self.customer == new.customer
            && self.reference == new.reference
    }
}

#[derive(Clone)]
pub(super) struct Ledger(SqlitePool);

impl Ledger {
    pub(super) async fn open(url: &str) -> Result<Self, sqlx::Error> {
        let options = SqliteConnectOptions::from_str(url)?
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .busy_timeout(Duration::from_secs(5));
        let pool = SqlitePool::connect_with(options).await?;
        sqlx::raw_sql(TABLES).execute(&pool).await?;
        Ok(Self(pool))
    }

    /// Charges; if there is a charge under the key, that one stands, whatever it is.
    pub(super) async fn charge(
        &self,
        new: &NewCharge,
        key: Option<&str>,
        status: &'static str,
    ) -> Result<Charge, sqlx::Error> {
        sqlx::query_as(CHARGE)
            .bind(status)
            .bind(new.amount)
            .bind(&new.currency)
            .bind(&new.source)
            .bind(&new.customer)
            .bind(&new.reference)
            .bind(key)
            .fetch_one(&self.0)
            .await
    }

    pub(super) async fn by_key(&self, key: &str) -> Result<Option<Charge>, sqlx::Error> {
        sqlx::query_as("SELECT * FROM charges WHERE key = $1").bind(key).fetch_optional(&self.0).await
    }

    pub(super) async fn by_reference(&self, reference: &str) -> Result<Vec<Charge>, sqlx::Error> {
        let charges = "SELECT * FROM charges WHERE reference = $1 ORDER BY number";
        sqlx::query_as(charges).bind(reference).fetch_all(&self.0).await
    }

    pub(super) async fn all(&self) -> Result<Vec<Charge>, sqlx::Error> {
        sqlx::query_as("SELECT * FROM charges ORDER BY number").fetch_all(&self.0).await
    }

    pub(super) async fn close(&self) {
        self.0.close().await;
    }
}
