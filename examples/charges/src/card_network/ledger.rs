//! The network's charges, in one SQLite file. One statement makes a charge and commits it before the response.
//! Declined charges are stored too: a declined key stays declined.

use scaffold::database::Database;
use serde::{Deserialize, Serialize};
use sqlx::{FromRow, SqlitePool};

/// One statement: of concurrent requests with one key exactly one charges, and all of them get that row.
const CHARGE: &str = "\
    INSERT INTO charges (status, amount, currency, source, customer, reference, key) \
    VALUES ($1, $2, $3, $4, $5, $6, $7) \
    ON CONFLICT (key) DO UPDATE SET requests = requests + 1 \
    RETURNING *";

/// A requested charge.
#[derive(Clone, Deserialize)]
pub(super) struct NewCharge {
    amount: i64,
    currency: String,
    pub(super) source: String,
    customer: Option<String>,
    reference: Option<String>,
}

/// A charge in the ledger.
#[derive(Serialize, FromRow)]
pub(super) struct Charge {
    id: String,
    pub(super) status: String,
    amount: i64,
    currency: String,
    // A token is as valuable as a card, so no response contains it.
    #[serde(skip)]
    source: String,
    customer: Option<String>,
    reference: Option<String>,
    key: Option<String>,
    /// How often it was requested with its key.
    requests: i64,
}

impl Charge {
    /// Whether it is the requested charge, and not a different one under the same key.
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
        Ok(Self(Database::open_sqlite(url, include_str!("ledger.sql")).await?))
    }

    /// Charges. If a charge with this key exists, returns that charge, even if it is different.
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
