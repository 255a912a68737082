//! The handler's transaction: that it cannot be ended unseen, that its failure is no success, what a handler may do in it.
//! Each on a pool of one, so that a connection which is not sound afterwards shows.

use std::time::Duration;

use axum::{
    Router,
    extract::{FromRequestParts, Path, State},
    http::{StatusCode, request::Parts},
    response::{IntoResponse, Response},
    routing::{any, post},
};
use idem_runtime::{Builder, Settle, idempotent};
use sqlx::{Acquire, Executor, Transaction};

use super::{ABORTS, Connection, Db, app::*};

/// Runs any statement of the path, ignores its result, and reports success.
#[idempotent(scope = account)]
async fn swallow(
    tx: &mut Connection,
    State(app): State<App>,
    account: Account,
    Path((status, sql)): Path<(u16, String)>,
) -> StatusCode {
    app.runs.begin();
    write(tx, &account).await;
    let _ = tx.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(sql.replace('_', " ")))).await;
    StatusCode::from_u16(status).unwrap()
}

async fn pool_of_one(router: Router<App>) -> Service {
    Service::of(router, 1, plain, || StatusCode::CREATED.into_response()).await
}

async fn swallowing() -> Service {
    pool_of_one(Router::new().route("/{status}/{sql}", post(swallow))).await
}

#[tokio::test]
async fn b43_a_failed_statement_that_the_handler_ignores() {
    let service = swallowing().await;
    let answer = service.post("/201/SELECT_nothing_FROM_nowhere", "k", "").await;
    if ABORTS {
        assert_problem(&answer, 500, "idempotency-transaction-aborted");
        assert_eq!(service.counts().await, (1, 0, 0), "never a 2xx with nothing saved");
        service.post("/201/SELECT_1", "k", "changed").await;
        assert_eq!(service.counts().await, (2, 1, 1), "the key was free");
    } else {
        // Here a failed statement undoes itself alone.
        assert_eq!((answer.status, service.counts().await), (201, (1, 1, 1)));
    }
    // What is rolled back anyway is stored: the savepoint is older than the failure.
    let service = swallowing().await;
    let declined = service.post("/402/SELECT_nothing_FROM_nowhere", "k", "").await;
    assert_eq!((declined.status, service.counts().await), (402, (1, 0, 1)));
    assert_replay(&declined, &service.post("/402/SELECT_nothing_FROM_nowhere", "k", "").await);
}

#[tokio::test]
async fn b56_a_handler_that_ends_the_transaction_gets_no_success() {
    for sql in ["COMMIT", "ROLLBACK", "COMMIT;BEGIN", "ROLLBACK;BEGIN", "ROLLBACK;BEGIN;SELECT_1"] {
        for status in [201, 303, 402, 500] {
            let service = swallowing().await;
            let answer = service.post(&format!("/{status}/{sql}"), "k", "").await;
            assert_problem(&answer, 500, "idempotency-transaction-ended");
            let (runs, rows, records) = service.counts().await;
            // A raw COMMIT cannot be taken back; what counts is that no response was stored outside its transaction.
            assert_eq!((runs, rows, records), (1, i64::from(sql.starts_with("COMMIT")), 0), "{status} {sql}");
            for key in ["k2", "k3"] {
                assert_eq!(service.post("/201/SELECT_1", key, "").await.status, 201, "after {sql}");
            }
            assert_eq!(service.counts().await, (3, rows + 2, 2), "{status} {sql}");
        }
    }
}

#[tokio::test]
async fn b43_a_constraint_that_fails_at_commit_is_no_success() {
    let service = swallowing().await;
    let id = "REFERENCES payments (id) DEFERRABLE INITIALLY DEFERRED";
    let links = sqlx::AssertSqlSafe(format!("CREATE TABLE links (payment BIGINT {id})"));
    service.pool.execute(sqlx::raw_sql(links)).await.unwrap();
    let answer = service.post("/201/INSERT_INTO_links_VALUES_(99)", "k", "").await;
    assert_problem(&answer, 500, "idempotency-transaction-aborted");
    assert_eq!(service.counts().await, (1, 0, 0));
    assert_eq!(service.post("/201/SELECT_1", "k", "changed").await.status, 201);
    assert_eq!(service.counts().await, (2, 1, 1));
}

/// Loses against others until it has run so often as the path says.
#[idempotent(scope = account)]
async fn loses(tx: &mut Connection, State(app): State<App>, account: Account, Path(wins): Path<usize>) -> Response {
    app.runs.begin();
    write(tx, &account).await;
    if app.runs.count() < wins {
        return (StatusCode::OK, Settle::RunAgain, ()).into_response();
    }
    (StatusCode::CREATED, format!("run {}", app.runs.count())).into_response()
}

#[tokio::test]
async fn b39_a_run_that_loses_is_run_again_a_bounded_number_of_times() {
    // Four runs at least, and no more when they have taken the whole of this.
    let brief = |builder: Builder<Db>| builder.database_timeout(Duration::from_secs(1));
    let service = Service::of(Router::new().route("/{wins}", post(loses)), 1, brief, || ().into_response()).await;
    let first = service.post("/4", "k", "").await;
    assert_eq!((first.status, first.text()), (201, "run 4"));
    assert_eq!(service.counts().await, (4, 1, 1));
    assert_replay(&first, &service.post("/4", "k", "").await);
    assert_problem(&service.post("/100", "other", "").await, 503, "idempotency-contention");
    let (runs, rows, records) = service.counts().await;
    assert!(runs >= 8, "{runs} runs");
    assert_eq!((rows, records), (1, 1), "nothing kept, the key free");
}

/// Lets a request pass only as long as nothing has run.
struct Once;

impl FromRequestParts<App> for Once {
    type Rejection = StatusCode;

    async fn from_request_parts(_: &mut Parts, app: &App) -> Result<Self, StatusCode> {
        if app.runs.count() == 0 { Ok(Self) } else { Err(StatusCode::UNAUTHORIZED) }
    }
}

#[idempotent(scope = account)]
async fn loses_once(tx: &mut Connection, State(app): State<App>, account: Account, _: Once) -> (Settle, &'static str) {
    app.runs.begin();
    write(tx, &account).await;
    (Settle::RunAgain, "lost")
}

#[tokio::test]
async fn b39_what_an_extractor_rejects_before_the_second_run_is_no_answer() {
    let service = pool_of_one(Router::new().route("/", post(loses_once))).await;
    assert_problem(&service.post("/", "k", "").await, 503, "idempotency-contention");
    assert_eq!(service.counts().await, (1, 0, 0));
}

/// The database's error, as a handler returns it.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct Failed(#[from] sqlx::Error);

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
    }
}

/// Takes the transaction by its own type, and nests: the middle write alone is undone.
#[idempotent(scope = account, key = optional)]
async fn nested(tx: &mut Transaction<'_, Db>, State(app): State<App>, account: Account) -> Result<StatusCode, Failed> {
    app.runs.begin();
    write(tx, &account).await;
    let mut undone = tx.begin().await?;
    write(&mut undone, &account).await;
    undone.rollback().await?;
    let mut kept = tx.begin().await?;
    write(&mut kept, &account).await;
    kept.commit().await?;
    Ok(StatusCode::CREATED)
}

#[tokio::test]
async fn b100_a_handler_may_nest_transactions() {
    let service = pool_of_one(Router::new().route("/", any(nested))).await;
    let first = service.post("/", "k", "").await;
    assert_eq!((first.status, service.counts().await), (201, (1, 2, 1)));
    assert_replay(&first, &service.post("/", "k", "").await);
    assert_eq!(service.send("PUT", "/", &[ALICE], "").await.status, 201);
    assert_eq!(service.counts().await, (2, 4, 1));
}

/// Leaves a nested transaction open when it is done.
#[idempotent(scope = account)]
async fn left_open(
    tx: &mut Connection,
    State(app): State<App>,
    account: Account,
    Path(status): Path<u16>,
) -> StatusCode {
    app.runs.begin();
    tx.execute("SAVEPOINT theirs").await.expect("a savepoint");
    write(tx, &account).await;
    StatusCode::from_u16(status).unwrap()
}

#[tokio::test]
async fn b100_a_savepoint_left_open_ends_with_the_transaction() {
    let service = pool_of_one(Router::new().route("/{status}", post(left_open))).await;
    for (key, status, counts) in [("one", 201, (1, 1, 1)), ("two", 402, (2, 1, 2)), ("three", 201, (3, 2, 3))] {
        let path = format!("/{status}");
        let first = service.post(&path, key, "").await;
        assert_eq!((first.status, service.counts().await), (status, counts));
        assert_replay(&first, &service.post(&path, key, "").await);
    }
}

/// Begins a nested transaction that nothing ends.
#[idempotent(scope = account)]
async fn leaks(tx: &mut Connection, State(app): State<App>, account: Account) -> Result<StatusCode, Failed> {
    app.runs.begin();
    let mut nested = tx.begin().await?;
    write(&mut nested, &account).await;
    std::mem::forget(nested);
    Ok(StatusCode::CREATED)
}

/// Leaks one, and then a statement fails, which PostgreSQL takes for the end of the transaction.
#[idempotent(scope = account)]
async fn leaks_and_fails(tx: &mut Connection, State(app): State<App>, account: Account) -> Result<StatusCode, Failed> {
    app.runs.begin();
    let mut nested = tx.begin().await?;
    write(&mut nested, &account).await;
    let _failed = sqlx::query("SELECT 1 FROM no_such_table").execute(&mut *nested).await;
    std::mem::forget(nested);
    Ok(StatusCode::CREATED)
}

#[tokio::test]
async fn b100_a_leaked_transaction_in_which_a_statement_failed_leaves_a_clean_connection() {
    let router = Router::new().route("/", post(leaks_and_fails)).route("/pay", post(pay));
    let service = pool_of_one(router).await;
    let outside = service.beside(Router::new()).await;
    assert_eq!(service.post("/", "k", "").await.status, 500);
    assert_eq!(outside.counts().await, (1, 0, 0));
    assert_eq!(service.post("/pay", "other", "").await.status, 201);
    service.execute("INSERT INTO payments (account) VALUES ('nobody')").await;
    assert_eq!(outside.counts().await, (2, 2, 1));
}

#[tokio::test]
async fn b100_a_nested_transaction_that_is_leaked_is_no_success() {
    let service = pool_of_one(Router::new().route("/", post(leaks)).route("/pay", post(pay))).await;
    // What the only connection has not committed, this one does not see.
    let outside = service.beside(Router::new()).await;
    assert_problem(&service.post("/", "k", "").await, 500, "idempotency-transaction-ended");
    assert_eq!(outside.counts().await, (1, 0, 0));
    assert_eq!(service.post("/pay", "other", "").await.status, 201);
    assert_eq!(outside.counts().await, (2, 1, 1));
    service.execute("INSERT INTO payments (account) VALUES ('nobody')").await;
    assert_eq!(outside.counts().await, (2, 2, 1));
}

/// Drops a nested transaction at the last moment.
#[idempotent(scope = account)]
async fn drops(tx: &mut Connection, State(app): State<App>, account: Account) -> Result<StatusCode, Failed> {
    app.runs.begin();
    write(tx, &account).await;
    let mut nested = tx.begin().await?;
    write(&mut nested, &account).await;
    drop(nested);
    Ok(StatusCode::CREATED)
}

#[tokio::test]
async fn b100_a_nested_transaction_that_is_dropped_is_undone_alone() {
    let service = pool_of_one(Router::new().route("/", post(drops))).await;
    for run in 1..=50 {
        let key = format!("k{run}");
        let first = service.post("/", &key, "").await;
        assert_eq!((first.status, service.counts().await.1), (201, run));
        assert_replay(&first, &service.post("/", &key, "").await);
    }
    assert_eq!(service.counts().await, (50, 50, 50));
}

/// Panics in a separate task, which does not affect the request.
#[idempotent(scope = account)]
async fn spawns(tx: &mut Connection, State(app): State<App>, account: Account) -> (StatusCode, &'static str) {
    app.runs.begin();
    write(tx, &account).await;
    let failed = tokio::spawn(async { panic!("elsewhere") }).await.is_err();
    (StatusCode::CREATED, if failed { "it failed" } else { "it did not" })
}

#[tokio::test]
async fn b48_a_panic_in_a_task_of_the_handlers_own_is_not_the_handlers() {
    let service = pool_of_one(Router::new().route("/", post(spawns))).await;
    let first = service.post("/", "k", "").await;
    assert_eq!((first.status, first.text()), (201, "it failed"));
    assert_replay(&first, &service.post("/", "k", "").await);
    assert_eq!(service.counts().await, (1, 1, 1));
}
