//! What a request can order, and the handler on PostgreSQL that does it in its transaction.

use axum::{Json, extract::State, http::StatusCode};
use idem_runtime::idempotent;
use serde::Deserialize;
use serde_json::{Value, json};
use sqlx::{Executor, PgConnection};

use super::{Account, Failed, Probe};
use crate::http;

const TEMPORARY: &str = "CREATE TEMPORARY TABLE idem_records (LIKE idem_records INCLUDING ALL) ON COMMIT DROP";

/// What the handler is to do, after it has written its row.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    Write,
    /// Wait at the gate.
    Wait,
    /// Wait at the gate, then run one more statement.
    WaitThenRead,
    /// Write the value that only one row may have; say so if another has it.
    Once,
    /// Write it, and let the database find out at COMMIT.
    Late,
    /// A statement that fails, then one that would not; both results are ignored.
    SwallowFirst,
    /// The failing statement is the very last.
    SwallowLast,
    /// A helper that logs the failure and goes on.
    SwallowInHelper,
    /// End the transaction and begin one that looks like it, then decline.
    Restart,
    /// Make idem's table mean that of another schema, by the path or by a temporary one.
    OtherSchema,
    TemporaryTable,
    Decline,
    Panic,
}

#[derive(Deserialize)]
pub struct Order {
    pub act: Act,
    pub mark: String,
}

#[idempotent(scope = account)]
pub(super) async fn act(
    account: Account,
    State(probe): State<Probe>,
    tx: &mut PgConnection,
    Json(order): Json<Order>,
) -> Result<(StatusCode, Json<Value>), Failed> {
    probe.runs.begin();
    let effect: i64 = sqlx::query_scalar("INSERT INTO effects (account, mark) VALUES ($1, $2) RETURNING id")
        .bind(&account.0)
        .bind(&order.mark)
        .fetch_one(&mut *tx)
        .await?;
    match order.act {
        Act::Write => {}
        Act::Wait => probe.gate.pass().await,
        Act::WaitThenRead => {
            probe.gate.pass().await;
            tx.execute("SELECT 'after the gate'").await?;
        }
        Act::Once => {
            match tx.execute("UPDATE effects SET once = 'the one' WHERE id = (SELECT max(id) FROM effects)").await {
                Err(sqlx::Error::Database(error)) if error.constraint() == Some("effects_once") => {
                    return Err(Failed::Taken);
                }
                other => {
                    other?;
                }
            }
        }
        Act::Late => {
            tx.execute("UPDATE effects SET late = 'body-secret'").await?;
        }
        Act::SwallowFirst => {
            drop(tx.execute("SELECT 1 FROM no_such_table").await);
            drop(tx.execute("SELECT 1").await);
        }
        Act::SwallowLast => drop(tx.execute("SELECT 1 FROM no_such_table").await),
        Act::SwallowInHelper => audit(tx).await,
        Act::Restart => {
            tx.execute("COMMIT; BEGIN; SAVEPOINT idem_claim").await?;
            return Err(Failed::Declined);
        }
        Act::OtherSchema => {
            tx.execute("SET LOCAL search_path = tenant, public").await?;
        }
        Act::TemporaryTable => {
            tx.execute(TEMPORARY).await?;
        }
        Act::Decline => return Err(Failed::Declined),
        Act::Panic => panic!("as asked"),
    }
    Ok((StatusCode::CREATED, Json(json!({ "effect": effect }))))
}

async fn audit(tx: &mut PgConnection) {
    if let Err(error) = tx.execute("INSERT INTO no_such_audit_log VALUES (1)").await {
        tracing::warn!(%error, "not audited");
    }
}

/// The body of an order.
pub fn order(mark: &str, act: &str) -> String {
    json!({ "act": act, "mark": mark }).to_string()
}

/// The bytes of an order on a socket.
pub fn request(key: &str, act: &str) -> Vec<u8> {
    http::request("POST", "/act", &[("x-account", "ada"), ("idempotency-key", key)], order(key, act))
}
