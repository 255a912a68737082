//! SQLite alone: one writer at a time, in WAL mode and without, from two pools.
//! Whoever comes second waits for its turn and succeeds, or replays; nobody is told that the database is locked.

use axum::{Router, extract::State, http::StatusCode, response::IntoResponse, routing::post};
use idem_runtime::idempotent;
use sqlx::{Executor, sqlite::SqliteJournalMode};

use super::{Connection, app::*, fresh};
use crate::support::soon;

/// Reads first and writes later, which a transaction that begins as a reader may find it may not.
#[idempotent(scope = account)]
async fn count(tx: &mut Connection, State(app): State<App>, account: Account) -> StatusCode {
    app.runs.begin();
    tx.fetch_one("SELECT count(*) FROM payments").await.expect("a count");
    write(tx, &account).await;
    StatusCode::CREATED
}

fn routes() -> Router<App> {
    Router::new().route("/count", post(count)).route("/hold", post(hold))
}

#[tokio::test]
async fn b55_two_hundred_keys_at_once_all_succeed() {
    for journal in [SqliteJournalMode::Wal, SqliteJournalMode::Delete] {
        let database = fresh().await;
        let pool = database.pool_with(5, database.options().journal_mode(journal)).await;
        let service = Service::on(database, pool, routes(), plain, || ().into_response()).await;
        let keys: Vec<_> = (0..200).map(|at| format!("k{at}")).collect();
        for answer in at_once(&[&service], "/count", &keys).await {
            assert_eq!(answer.status, 201, "{journal:?}: {}", answer.text());
        }
        assert_eq!(service.counts().await, (200, 200, 200));
    }
}

#[tokio::test]
async fn b55_two_pools_and_twins_all_succeed() {
    let service = Service::start(routes()).await;
    let other = service.beside(routes()).await;
    let keys: Vec<_> = (0..100).map(|at| format!("k{}", at / 2)).collect();
    for answer in at_once(&[&service, &other], "/count", &keys).await {
        assert_eq!(answer.status, 201, "run or replayed: {}", answer.text());
    }
    assert_eq!(service.counts().await, (50, 50, 50));
}

#[tokio::test]
async fn b38_a_twin_in_another_process_waits_for_the_lock_and_replays() {
    let service = Service::start(routes()).await;
    let other = service.beside(routes()).await;
    let first = service.posting("/hold", "k", "1");
    service.app.gate.entered().await;
    let twin = other.posting("/hold", "k", "1");
    service.app.gate.open();
    let first = soon("the first", first).await.unwrap();
    assert_replay(&first, &soon("the twin", twin).await.unwrap());
    assert_eq!(service.counts().await, (1, 1, 1));
}
