//! Twins, clients that leave, transactions that end otherwise than asked, pools of one.
//! Order comes from gates and barriers; PostgreSQL's isolation levels are in `contention`.

use std::time::Duration;

use axum::{
    Router,
    extract::{Path, Request, State},
    http::StatusCode,
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use futures_util::future::join_all;
use idem_runtime::{Error, Settle, idempotent};
use sqlx::Executor;
use tower_http::timeout::TimeoutLayer;

use super::{ABORTS, Connection, app::*};
use crate::support::{
    gate::Gate,
    http::{self, Connection as Socket},
    soon,
};

#[idempotent(scope = account, in_progress = wait("1m"))]
async fn waits(tx: &mut Connection, State(app): State<App>, account: Account) -> Response {
    app.runs.begin();
    write(tx, &account).await;
    app.gate.pass().await;
    (app.answer)()
}

#[idempotent(scope = account, in_progress = wait("20ms"))]
async fn waits_briefly(tx: &mut Connection, State(app): State<App>, account: Account) -> StatusCode {
    app.runs.begin();
    write(tx, &account).await;
    app.gate.pass().await;
    StatusCode::CREATED
}

fn routes() -> Router<App> {
    let router = Router::new().route("/pay", post(pay)).route("/hold", post(hold)).route("/read", get(|| async {}));
    router.route("/waits", post(waits)).route("/briefly", post(waits_briefly))
}

async fn pool_of_one(router: Router<App>) -> Service {
    Service::of(router, 1, plain, || StatusCode::CREATED.into_response()).await
}

#[tokio::test]
async fn b38_of_fifty_twins_at_two_instances_one_runs() {
    let service = Service::start(routes()).await;
    let other = service.beside(routes()).await;
    let answers = at_once(&[&service, &other], "/pay", &vec!["k".to_owned(); 50]).await;
    let (ran, others): (Vec<_>, Vec<_>) =
        answers.iter().partition(|answer| answer.status == 201 && answer.all("idempotent-replayed").is_empty());
    assert_eq!(ran.len(), 1, "{answers:?}");
    for answer in others {
        match answer.status {
            409 => assert_problem(answer, 409, "in-progress"),
            _ => assert_replay(ran[0], answer),
        }
    }
    assert_eq!(service.counts().await, (1, 1, 1));
    assert_replay(ran[0], &other.post("/pay", "k", "1").await);
}

#[tokio::test]
async fn b38_thirty_twins_hold_no_connection() {
    let service = Service::start(routes()).await;
    let first = service.posting("/hold", "k", "1");
    service.app.gate.entered().await;
    // All but one of the five connections are in use elsewhere; the last is the first attempt's.
    let taken = join_all((0..4).map(|_| service.pool.acquire())).await;
    for twin in at_once(&[&service], "/hold", &vec!["k".to_owned(); 30]).await {
        assert_problem(&twin, 409, "in-progress");
    }
    drop(taken);
    assert_eq!(service.send("GET", "/read", &[], "").await.status, 200);
    service.app.gate.open();
    assert_replay(&soon("the first", first).await.unwrap(), &service.post("/hold", "k", "1").await);
    assert_eq!(service.counts().await, (1, 1, 1));
}

#[tokio::test]
async fn b49_as_many_keys_as_connections_and_a_pool_of_one() {
    for connections in [1, 4] {
        let service = Service::of(routes(), connections, plain, || ().into_response()).await;
        let keys: Vec<_> = (0..20).map(|at| format!("k{at}")).collect();
        for answer in at_once(&[&service], "/pay", &keys).await {
            assert_eq!((answer.status, answer.header("idempotent-replayed")), (201, None));
        }
        assert_eq!(service.counts().await, (20, 20, 20));
    }
}

/// Says when a request has come to the application.
async fn arrive(State(arrived): State<Gate>, request: Request, next: Next) -> Response {
    arrived.pass().await;
    next.run(request).await
}

#[tokio::test]
async fn a_twin_may_wait_for_the_answer_without_a_connection() {
    let arrived = Gate::new();
    arrived.open();
    let service = pool_of_one(routes().layer(middleware::from_fn_with_state(arrived.clone(), arrive))).await;
    let first = service.posting("/waits", "k", "1");
    service.app.gate.entered().await;
    arrived.entered().await;
    let twins = [service.posting("/waits", "k", "1"), service.posting("/waits", "k", "1")];
    for _ in &twins {
        arrived.entered().await;
    }
    // Another request comes and goes while they wait, and is not made to wait.
    assert_problem(&service.post("/waits", "k", "2").await, 422, "idempotency-key-reuse");
    assert!(twins.iter().all(|twin| !twin.is_finished()));
    service.app.gate.open();
    let first = soon("the first", first).await.unwrap();
    for twin in twins {
        assert_replay(&first, &soon("a twin", twin).await.unwrap());
    }
    assert_eq!(service.counts().await, (1, 1, 1));
}

#[tokio::test]
async fn a_twin_that_waits_runs_if_the_first_executed_nothing() {
    let nothing = || (StatusCode::UNPROCESSABLE_ENTITY, Settle::NothingExecuted, ()).into_response();
    let service = Service::of(routes(), 1, plain, nothing).await;
    let first = service.posting("/waits", "k", "1");
    service.app.gate.entered().await;
    let twin = service.posting("/waits", "k", "1");
    assert_problem(&service.post("/waits", "k", "2").await, 422, "idempotency-key-reuse");
    service.app.gate.open();
    for answer in [first, twin] {
        assert_eq!(soon("an answer", answer).await.unwrap().status, 422);
    }
    assert_eq!(service.counts().await, (2, 0, 0));
}

#[tokio::test]
async fn a_twin_waits_only_so_long() {
    let service = pool_of_one(routes()).await;
    let first = service.posting("/briefly", "k", "1");
    service.app.gate.entered().await;
    assert_problem(&service.post("/briefly", "k", "1").await, 409, "in-progress");
    assert!(!first.is_finished());
    service.app.gate.open();
    assert_eq!(soon("the first", first).await.unwrap().status, 201);
    assert_eq!(service.counts().await, (1, 1, 1));
}

/// Three statements, and a gate after each.
#[idempotent(scope = account)]
async fn steps(tx: &mut Connection, State(app): State<App>, account: Account) -> StatusCode {
    app.runs.begin();
    for _ in 0..3 {
        write(tx, &account).await;
        app.gate.pass().await;
    }
    StatusCode::CREATED
}

#[tokio::test]
async fn b47_a_client_that_leaves_at_any_point_finds_the_answer_later() {
    for step in 0..3 {
        let service = pool_of_one(Router::new().route("/", post(steps))).await;
        let mut socket = Socket::open(service.address()).await;
        socket.send(&http::request("POST", "/", &[ALICE, (KEY, "k")], "1")).await;
        for _ in 0..step {
            service.app.gate.entered().await;
            service.app.gate.let_one_through();
        }
        service.app.gate.entered().await;
        socket.reset();
        assert_problem(&service.post("/", "k", "1").await, 409, "in-progress");
        service.app.gate.open();
        service.app.idempotency.drain(Duration::from_secs(30)).await.unwrap();
        let again = service.post("/", "k", "1").await;
        assert_eq!((again.status, again.header("idempotent-replayed")), (201, Some("true")), "left at step {step}");
        assert_eq!(service.counts().await, (1, 3, 1));
    }
}

#[tokio::test]
async fn b46_clients_that_leave_at_once_leave_sound_connections() {
    let service = pool_of_one(routes()).await;
    for at in 0..40 {
        let mut socket = Socket::open(service.address()).await;
        let request = http::request("POST", "/pay", &[ALICE, (KEY, &format!("k{at}"))], "1");
        socket.send(&request).await;
        // Before, during or after the claim: as many turns of the runtime as the attempt's number.
        for _ in 0..at {
            tokio::task::yield_now().await;
        }
        socket.reset();
    }
    service.app.idempotency.drain(Duration::from_secs(30)).await.unwrap();
    let mut innocent = service.pool.begin().await.unwrap();
    innocent.execute("INSERT INTO payments (account) VALUES ('innocent')").await.unwrap();
    innocent.rollback().await.unwrap();
    for at in 0..40 {
        assert_eq!(service.post("/pay", &format!("k{at}"), "1").await.status, 201);
    }
    let (runs, rows, records) = service.counts().await;
    assert_eq!((runs, rows, records), (40, 40, 40), "each key ran once, for the client that left or for its retry");
}

#[tokio::test]
async fn b47_a_timeout_shorter_than_the_handler_is_not_the_stored_answer() {
    for status in [StatusCode::REQUEST_TIMEOUT, StatusCode::GATEWAY_TIMEOUT] {
        let layer = TimeoutLayer::with_status_code(status, Duration::from_millis(20));
        let service = pool_of_one(routes().layer(layer)).await;
        let first = service.posting("/hold", "k", "1");
        service.app.gate.entered().await;
        assert_eq!(soon("the time-out", first).await.unwrap().status, status.as_u16());
        service.app.gate.open();
        service.app.idempotency.drain(Duration::from_secs(30)).await.unwrap();
        let again = service.post("/hold", "k", "1").await;
        assert_eq!((again.status, again.text()), (201, "run 1 for alice"));
        assert_eq!(again.header("idempotent-replayed"), Some("true"));
        assert_eq!(service.counts().await, (1, 1, 1));
    }
}

#[tokio::test]
async fn b60_shutdown_waits_for_attempts_whose_clients_have_gone() {
    let service = pool_of_one(routes()).await;
    let mut socket = Socket::open(service.address()).await;
    socket.send(&http::request("POST", "/hold", &[ALICE, (KEY, "k")], "1")).await;
    service.app.gate.entered().await;
    socket.reset();
    let drained = service.app.idempotency.drain(Duration::ZERO).await;
    assert!(matches!(drained, Err(Error::StillRunning { running: 1 })), "{drained:?}");
    service.app.gate.open();
    service.app.idempotency.drain(Duration::from_secs(30)).await.unwrap();
    assert_eq!(service.counts().await, (1, 1, 1));
    // Nothing was left to drain; a service that goes on serving may be asked again.
    service.app.idempotency.drain(Duration::ZERO).await.unwrap();
}

/// Runs any statement of the path, ignores what comes of it, and claims success.
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
            // A raw COMMIT cannot be taken back; what counts is that no answer was stored outside its transaction.
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
    let service = pool_of_one(Router::new().route("/{wins}", post(loses))).await;
    let first = service.post("/4", "k", "").await;
    assert_eq!((first.status, first.text()), (201, "run 4"));
    assert_eq!(service.counts().await, (4, 1, 1));
    assert_replay(&first, &service.post("/4", "k", "").await);
    assert_problem(&service.post("/100", "other", "").await, 503, "idempotency-contention");
    assert_eq!(service.counts().await, (8, 1, 1), "four runs more, nothing kept, the key free");
}
