//! What a test sees from outside: responses, committed rows, the server's sessions.
//! Rows are counted over a separate connection, which no proxy breaks.

use std::time::Duration;

use sqlx::AssertSqlSafe;

use crate::{databases::Postgres, http::RawResponse, soon};

/// The code of one of idem's own responses.
pub fn code(response: &RawResponse) -> Option<String> {
    let problem = response.header("content-type") == Some("application/problem+json");
    problem.then(|| response.json()["code"].as_str().expect("a code").to_owned())
}

/// One of idem's own responses, complete: status, code and `Retry-After`.
#[track_caller]
pub fn assert_problem(response: &RawResponse, status: u16, expected: &str) {
    assert_eq!((response.status, code(response).as_deref()), (status, Some(expected)), "{}", response.text());
    let seconds = response.header("retry-after").and_then(|seconds| seconds.parse::<u32>().ok());
    assert_eq!(seconds.is_some(), matches!(status, 409 | 503), "{response:?}");
    assert_eq!(response.header("idempotent-replayed"), None);
}

#[track_caller]
pub fn assert_ran(response: &RawResponse) {
    assert_eq!((response.status, response.header("idempotent-replayed")), (201, None), "{}", response.text());
}

#[track_caller]
pub fn assert_replayed(response: &RawResponse) {
    assert_eq!((response.status, response.header("idempotent-replayed")), (201, Some("true")), "{}", response.text());
}

/// The rows that the handler wrote, by their mark; seen from outside, so what is not committed is not counted.
pub async fn rows(database: &Postgres, mark: &str) -> i64 {
    count(database, &format!("effects WHERE mark = '{mark}'")).await
}

/// The records of idem.
pub async fn records(database: &Postgres) -> i64 {
    count(database, "idem_records").await
}

pub async fn count(database: &Postgres, what: &str) -> i64 {
    let sql = AssertSqlSafe(format!("SELECT count(*) FROM {what}"));
    sqlx::query_scalar(sql).fetch_one(&mut database.connect().await).await.expect("a count")
}

/// Waits until the server's sessions are as a condition on `pg_stat_activity` says: none of this database meets it.
pub async fn no_session(database: &Postgres, condition: &str) {
    let what = format!("pg_stat_activity WHERE datname = '{}' AND {condition}", database.name());
    let none = async {
        while count(database, &what).await > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(&format!("no session with {condition}"), none).await;
}

/// Waits until a session of this database meets a condition on `pg_stat_activity`.
pub async fn a_session(database: &Postgres, condition: &str) {
    let what = format!("pg_stat_activity WHERE datname = '{}' AND {condition}", database.name());
    let one = async {
        while count(database, &what).await == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(&format!("a session with {condition}"), one).await;
}
