//! PostgreSQL alone: twins in other processes, strict isolation levels, transactions that lose against others.
//! The failures are the database's own, made to happen by gates.

use axum::{
    Router,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{any, post},
};
use futures_util::future::join_all;
use idem_runtime::{Attempt, idempotent};
use idem_tests::soon;
use sqlx::{Executor, Row};

use super::{Connection, Db, FILL, fresh, topics::app::*};

mod isolation;

/// An application's own error, with the database's behind it.
#[derive(Debug, thiserror::Error)]
#[error("the payment failed")]
struct Failed(#[source] Cause);

#[derive(Debug, thiserror::Error)]
#[error("the table of accounts")]
struct Cause(#[from] sqlx::Error);

impl From<sqlx::Error> for Failed {
    fn from(error: sqlx::Error) -> Self {
        Self(Cause(error))
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
    }
}

/// Adds one to a row that all keys share.
#[idempotent(scope = account, isolation = "repeatable read")]
async fn add(tx: &mut Connection, State(app): State<App>, account: Account) -> Result<StatusCode, Failed> {
    app.runs.begin();
    write(tx, &account).await;
    app.gate.pass().await;
    tx.execute("UPDATE sums SET sum = sum + 1 WHERE id = 1").await?;
    Ok(StatusCode::CREATED)
}

/// Inserts what it has read and one more: each is right alone, both together are not.
#[idempotent(scope = account, isolation = "serializable")]
async fn skew(
    tx: &mut Connection,
    State(app): State<App>,
    account: Account,
    Path(id): Path<i64>,
) -> Result<StatusCode, Failed> {
    app.runs.begin();
    let sum: i64 = tx.fetch_one("SELECT sum(sum)::bigint FROM sums").await?.try_get(0)?;
    sqlx::query("INSERT INTO sums (id, sum) VALUES ($1, $2)").bind(id).bind(sum + 1).execute(&mut *tx).await?;
    write(tx, &account).await;
    app.gate.pass().await;
    Ok(StatusCode::CREATED)
}

/// Locks two rows in the order of the path.
#[idempotent(scope = account)]
async fn lock(
    tx: &mut Connection,
    State(app): State<App>,
    account: Account,
    Path((one, other)): Path<(i64, i64)>,
) -> Result<StatusCode, Failed> {
    app.runs.begin();
    write(tx, &account).await;
    for id in [one, other] {
        sqlx::query("UPDATE sums SET sum = sum + 1 WHERE id = $1").bind(id).execute(&mut *tx).await?;
        app.gate.pass().await;
    }
    Ok(StatusCode::CREATED)
}

/// Loses always.
#[idempotent(scope = account)]
async fn lose(tx: &mut Connection, State(app): State<App>, account: Account) -> Result<StatusCode, Failed> {
    app.runs.begin();
    write(tx, &account).await;
    tx.execute("DO $$ BEGIN RAISE EXCEPTION SQLSTATE '40001'; END $$").await?;
    Ok(StatusCode::CREATED)
}

fn routes() -> Router<App> {
    let router = Router::new().route("/pay", post(pay)).route("/hold", post(hold)).route("/add", post(add));
    router.route("/skew/{id}", post(skew)).route("/lock/{one}/{other}", post(lock)).route("/lose", any(lose))
}

async fn service() -> Service {
    let service = Service::start(routes()).await;
    service.execute("CREATE TABLE sums (id BIGINT PRIMARY KEY, sum BIGINT NOT NULL)").await;
    service.execute("INSERT INTO sums VALUES (1, 0), (2, 0)").await;
    service
}

async fn sum(service: &Service, id: i64) -> i64 {
    let sum = sqlx::query_scalar("SELECT sum FROM sums WHERE id = $1").bind(id);
    sum.fetch_one(&service.pool).await.unwrap()
}

#[tokio::test]
async fn b38_b18_a_twin_in_another_process_is_answered_at_once() {
    for level in ["read committed", "repeatable read", "serializable"] {
        let service = service().await;
        service.database.set("default_transaction_isolation", level).await;
        let (one, other) = (service.beside(routes()).await, service.beside(routes()).await);
        let first = one.posting("/hold", "k", "1");
        service.app.gate.entered().await;
        assert_problem(&other.post("/hold", "k", "1").await, 409, "in-progress");
        assert_problem(&other.post("/hold", "k", "2").await, 422, "idempotency-key-reuse");
        assert_problem(&other.post("/pay", "k", "1").await, 422, "idempotency-key-reuse");
        assert_eq!(other.post("/pay", "another", "1").await.status, 201);
        assert!(!first.is_finished());
        service.app.gate.open();
        let first = soon("the first", first).await.unwrap();
        assert_replay(&first, &other.post("/hold", "k", "1").await);
        let (runs, rows, records) = service.counts().await;
        assert_eq!((rows, records), (2, 2), "{level}");
        // Where the database tells what might not be serializable, it may ask for a run more.
        assert!(runs == 2 || (level == "serializable" && runs <= 3), "{level}: {runs}");
    }
}

#[idempotent(scope = account, in_progress = wait("1m"))]
async fn waits(tx: &mut Connection, State(app): State<App>, account: Account) -> StatusCode {
    app.runs.begin();
    write(tx, &account).await;
    app.gate.pass().await;
    StatusCode::CREATED
}

#[tokio::test]
async fn a_twin_may_wait_for_the_answer_of_another_process_without_a_connection() {
    let routes = || Router::new().route("/", post(waits));
    let service = Service::start(routes()).await;
    let other = service.beside(routes()).await;
    let first = service.posting("/", "k", "1");
    service.app.gate.entered().await;
    // More of them than connections: each has looked at least once before the last one's look.
    let twins: Vec<_> = (0..20).map(|_| other.posting("/", "k", "1")).collect();
    assert_problem(&other.post("/", "k", "2").await, 422, "idempotency-key-reuse");
    assert!(twins.iter().all(|twin| !twin.is_finished()));
    service.app.gate.open();
    let first = soon("the first", first).await.unwrap();
    for twin in twins {
        assert_replay(&first, &soon("a twin", twin).await.unwrap());
    }
    assert_eq!(service.counts().await, (1, 1, 1));
}

#[tokio::test]
async fn b49_as_many_handlers_at_once_as_connections() {
    let service = Service::of(routes(), 3, plain, || ().into_response()).await;
    let keys = ["one", "two", "three"].map(|key| service.posting("/hold", key, ""));
    for _ in &keys {
        service.app.gate.entered().await;
    }
    service.app.gate.open();
    for key in keys {
        assert_eq!(soon("an answer", key).await.unwrap().status, 201);
    }
    assert_eq!(service.counts().await, (3, 3, 3));
}

#[tokio::test]
async fn b65_pruners_at_once_do_not_lose_against_each_other_under_a_strict_default() {
    let database = fresh().await;
    database.set("default_transaction_isolation", "repeatable read").await;
    let pool = database.pool(4).await;
    let service = Service::on(database, pool, Router::new(), plain, || ().into_response()).await;
    for _ in 0..5 {
        service.execute(FILL).await;
        let pruned = join_all([(); 4].map(|()| {
            let idempotency = service.app.idempotency.clone();
            async move { idempotency.prune().await }
        }));
        assert_eq!(pruned.await.into_iter().map(Result::unwrap).sum::<u64>(), 2500);
        assert_eq!(service.counts().await, (0, 0, 0));
    }
}

/// The handler `hold` in its next version.
#[idempotent(scope = account, operation = "hold", fingerprint = json)]
async fn hold_by_json(tx: &mut Connection, State(app): State<App>, account: Account) -> StatusCode {
    app.runs.begin();
    write(tx, &account).await;
    StatusCode::CREATED
}

#[tokio::test]
async fn b20_a_twin_at_a_version_with_another_rule_is_409_and_another_request_is_422() {
    let old = Service::start(Router::new().route("/hold", post(hold))).await;
    let new = old.beside(Router::new().route("/hold", post(hold_by_json))).await;
    let first = old.posting("/hold", "k", r#"{"a":1}"#);
    old.app.gate.entered().await;
    assert_problem(&new.post("/hold", "k", r#"{"a":1}"#).await, 409, "in-progress");
    assert_problem(&new.post("/hold", "k", r#"{"a":2}"#).await, 422, "idempotency-key-reuse");
    old.app.gate.open();
    let first = soon("the first answer", first).await.unwrap();
    assert_replay(&first, &new.post("/hold", "k", r#"{"a":1}"#).await);
    assert_eq!(old.counts().await, (1, 1, 1));
}

#[idempotent(scope = account, effects = external, key = optional)]
async fn charge(attempt: &mut Attempt<Db>, State(app): State<App>, account: Account) -> StatusCode {
    app.runs.begin();
    app.network.charge(attempt.key("charge"));
    write(attempt.transaction().await.unwrap(), &account).await;
    StatusCode::CREATED
}

#[tokio::test]
async fn effects_elsewhere_are_not_run_again_for_a_commit_that_loses_with_a_key_or_without() {
    let service = Service::start(Router::new().route("/charge", post(charge))).await;
    let loses = "\
        CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS \
            'BEGIN RAISE EXCEPTION SQLSTATE ''40001''; END'; \
        CREATE CONSTRAINT TRIGGER loses AFTER INSERT ON payments DEFERRABLE INITIALLY DEFERRED \
            FOR EACH ROW EXECUTE FUNCTION lose()";
    sqlx::raw_sql(loses).execute(&service.pool).await.unwrap();
    assert_problem(&service.send("POST", "/charge", &[ALICE], "").await, 503, "idempotency-outcome-unknown");
    assert_eq!((service.counts().await, service.app.network.calls().len()), ((1, 0, 0), 1));
    assert_problem(&service.post("/charge", "k", "").await, 503, "idempotency-outcome-unknown");
    assert_eq!((service.counts().await, service.app.network.calls().len()), ((2, 0, 1), 2));
}
