//! SQLite alone: one writer at a time, in WAL mode and without, from two pools; and a trigger that ends the transaction.
//! A second writer waits for its turn and succeeds, or replays; no client gets an error about a locked database.

use axum::{
    Router,
    extract::{Path, State},
    http::StatusCode,
    response::IntoResponse,
    routing::post,
};
use idem_runtime::idempotent;
use idem_tests::soon;
use sqlx::{Connection as _, Executor, sqlite::SqliteJournalMode};

use super::{Connection, fresh, topics::app::*};

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

/// Its nested transaction is rolled back by a trigger, and with it everything.
#[idempotent(scope = account)]
async fn raises(tx: &mut Connection, State(app): State<App>, account: Account, Path(status): Path<u16>) -> StatusCode {
    app.runs.begin();
    write(tx, &account).await;
    let mut nested = tx.begin().await.expect("a nested transaction");
    nested.execute("INSERT INTO payments (account) VALUES ('poor')").await.expect_err("a rollback");
    drop(nested);
    StatusCode::from_u16(status).unwrap()
}

#[tokio::test]
async fn b56_a_trigger_that_rolls_back_within_a_nested_transaction_is_no_success() {
    for status in [201, 402] {
        let database = fresh().await;
        let pool = database.pool(1).await;
        let routes = Router::new().route("/{status}", post(raises)).route("/pay", post(pay));
        let service = Service::on(database, pool, routes, plain, || ().into_response()).await;
        let trigger = "CREATE TRIGGER money BEFORE INSERT ON payments WHEN new.account = 'poor' \
                           BEGIN SELECT RAISE(ROLLBACK, 'no money'); END";
        service.execute(trigger).await;
        let outside = service.beside(Router::new()).await;
        let answer = service.post(&format!("/{status}"), "k", "").await;
        assert_problem(&answer, 500, "idempotency-transaction-ended");
        assert_eq!(outside.counts().await, (1, 0, 0));
        for (key, counts) in [("k2", (2, 1, 1)), ("k3", (3, 2, 2))] {
            assert_eq!(service.post("/pay", key, "").await.status, 201);
            assert_eq!(outside.counts().await, counts);
        }
        service.execute("INSERT INTO payments (account) VALUES ('nobody')").await;
        assert_eq!(outside.counts().await, (3, 3, 2));
    }
}
