//! Twins, clients that leave, transactions that end otherwise than asked, pools of one.
//! Order comes from gates and barriers; PostgreSQL's isolation levels are in `contention`.

use std::time::Duration;

use axum::{
    Router,
    extract::{Request, State},
    http::StatusCode,
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use futures_util::future::join_all;
use idem_runtime::{DrainError, Settle, idempotent};
use idem_tests::{
    gate::Gate,
    http::{self, Connection as Socket, RawResponse},
    soon,
};
use sqlx::Executor;
use tower_http::timeout::TimeoutLayer;

use super::{Connection, app::*};

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
async fn b18_of_two_requests_that_race_for_one_key_one_wins_and_the_other_is_422() {
    let service = Service::start(routes()).await;
    let other = service.beside(routes()).await;
    for round in 1..=10 {
        let key = format!("k{round}");
        let requests = (0..20).map(|at| http::request("POST", "/pay", &[ALICE, (KEY, &key)], (at % 4 / 2).to_string()));
        let answers = all_at_once(&[&service, &other], requests.collect()).await;
        let of = |body| answers.iter().enumerate().filter(move |(at, _)| at % 4 / 2 == body).map(|(_, answer)| answer);
        let ran = |answer: &&RawResponse| answer.status == 201 && answer.all("idempotent-replayed").is_empty();
        let winners = [of(0).filter(ran).count(), of(1).filter(ran).count()];
        let winner = usize::from(winners == [0, 1]);
        assert_eq!(winners[winner] + winners[1 - winner], 1, "{answers:?}");
        assert!(of(winner).all(|answer| matches!(answer.status, 201 | 409)), "{answers:?}");
        for loser in of(1 - winner) {
            assert_problem(loser, 422, "idempotency-key-reuse");
        }
        assert_eq!(service.counts().await, (round, round as i64, round as i64));
    }
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
        // Asked where no layer is in a hurry.
        let again = service.beside(routes()).await.post("/hold", "k", "1").await;
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
    assert!(matches!(drained, Err(DrainError::StillRunning { running: 1 })), "{drained:?}");
    service.app.gate.open();
    service.app.idempotency.drain(Duration::from_secs(30)).await.unwrap();
    assert_eq!(service.counts().await, (1, 1, 1));
    // Nothing was left to drain; a service that goes on serving may be asked again.
    service.app.idempotency.drain(Duration::ZERO).await.unwrap();
}
