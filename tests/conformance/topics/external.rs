//! External effects: what is committed before the body, what an in-flight duplicate gets, and how an attempt ends.
//! Leases are ended by the test, in the database: nothing here waits for a clock.

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderValue, Method, StatusCode},
    response::{IntoResponse, Response},
    routing::{any, post},
};
use idem_runtime::{Attempt, Settle, idempotent, options::OnServerError};
use idem_tests::{http::RawResponse, soon};
use sqlx::Executor;

use super::{Connection, Db, LAPSE, REMAINING, app::*};

mod retention;
mod stored;
mod transaction;

/// Charges, and writes a row.
#[idempotent(scope = account, effects = external)]
async fn charge(attempt: &mut Attempt<Db>, State(app): State<App>, account: Account, _: Bytes) -> (StatusCode, String) {
    app.runs.begin();
    app.network.charge(attempt.key("charge"));
    write(attempt.transaction().await.unwrap(), &account).await;
    (StatusCode::CREATED, format!("run {} for {}", app.runs.count(), account.0))
}

/// Charges, waits at the gate, and then writes a row.
#[idempotent(scope = account, effects = external)]
async fn hold_charge(attempt: &mut Attempt<Db>, State(app): State<App>, account: Account) -> (StatusCode, String) {
    app.runs.begin();
    app.network.charge(attempt.key("charge"));
    app.gate.pass().await;
    write(attempt.transaction().await.unwrap(), &account).await;
    (StatusCode::CREATED, format!("run {} for {}", app.runs.count(), account.0))
}

/// Charges without a row.
#[idempotent(scope = account, effects = external, lease = "1m30s")]
async fn alone(attempt: &mut Attempt<Db>, State(app): State<App>, account: Account) -> StatusCode {
    app.runs.begin();
    app.network.charge(attempt.key_at("charge", 3));
    StatusCode::ACCEPTED
}

/// Charges, writes a row, and returns what the test chose.
#[idempotent(scope = account, effects = external)]
async fn say_charge(attempt: &mut Attempt<Db>, State(app): State<App>, account: Account) -> Response {
    app.runs.begin();
    app.network.charge(attempt.key("charge"));
    write(attempt.transaction().await.unwrap(), &account).await;
    (app.answer)()
}

#[idempotent(scope = account, effects = external, on_server_error = reconcile, max_response = 100)]
async fn say_reconcile(attempt: &mut Attempt<Db>, State(app): State<App>, account: Account) -> Response {
    app.runs.begin();
    app.network.charge(attempt.key("charge"));
    write(attempt.transaction().await.unwrap(), &account).await;
    (app.answer)()
}

#[idempotent(scope = account, effects = external, key = optional)]
async fn optional(attempt: &mut Attempt<Db>, State(app): State<App>, account: Account) -> Response {
    app.runs.begin();
    app.network.charge(attempt.key("charge"));
    write(attempt.transaction().await.unwrap(), &account).await;
    (app.answer)()
}

#[idempotent(scope = account, effects = external, in_progress = wait("1m"))]
async fn patient(attempt: &mut Attempt<Db>, State(app): State<App>, account: Account) -> String {
    app.runs.begin();
    app.network.charge(attempt.key("charge"));
    app.gate.pass().await;
    format!("run {}", app.runs.count())
}

/// Runs its own SQL in the completing transaction, and ignores how that ends.
#[idempotent(scope = account, effects = external)]
async fn meddle(attempt: &mut Attempt<Db>, State(app): State<App>, account: Account, sql: String) -> StatusCode {
    app.runs.begin();
    let transaction = attempt.transaction().await.unwrap();
    write(&mut *transaction, &account).await;
    let _ = transaction.execute(sqlx::AssertSqlSafe(sql)).await;
    StatusCode::CREATED
}

pub fn routes() -> Router<App> {
    Router::new()
        .route("/charge", post(charge))
        .route("/hold-charge", post(hold_charge))
        .route("/alone", post(alone))
        .route("/say", post(say_charge))
        .route("/reconcile", post(say_reconcile))
        .route("/optional", any(optional))
        .route("/patient", post(patient))
        .route("/meddle", post(meddle))
        .route("/pay", post(pay))
        .route("/hold", post(hold))
}

async fn saying<R: IntoResponse>(answer: impl Fn() -> R + Send + Sync + 'static) -> Service {
    Service::of(routes(), 5, plain, move || answer().into_response()).await
}

/// How many records are in progress.
async fn in_progress(service: &Service) -> i64 {
    let count = sqlx::query_scalar("SELECT count(*) FROM idem_records WHERE attempt IS NOT NULL");
    count.fetch_one(&service.pool).await.unwrap()
}

fn retry_after(response: &RawResponse) -> u64 {
    response.header("retry-after").unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_new_key_runs_once_and_every_retry_gets_its_answer() {
    let service = Service::start(routes()).await;
    let other = service.beside(routes()).await;
    let first = service.post("/charge", "k", "1").await;
    assert_eq!((first.status, first.text()), (201, "run 1 for alice"));
    for service in [&service, &other] {
        assert_replay(&first, &service.post("/charge", "k", "1").await);
        assert_problem(&service.post("/charge", "k", "2").await, 422, "idempotency-key-reuse");
    }
    assert_eq!((service.counts().await, service.app.network.charges()), ((1, 1, 1), 1));
    assert_eq!(in_progress(&service).await, 0);
}

#[tokio::test]
async fn without_a_transaction_the_record_commits_alone() {
    let service = Service::start(routes()).await;
    let first = service.post("/alone", "k", "").await;
    assert_eq!(first.status, 202);
    assert_replay(&first, &service.post("/alone", "k", "").await);
    assert_eq!((service.counts().await, service.app.network.charges()), ((1, 0, 1), 1));
}

#[tokio::test]
async fn b18_while_it_runs_a_twin_is_409_and_another_request_422_at_every_instance() {
    let service = Service::start(routes()).await;
    let other = service.beside(routes()).await;
    let first = service.posting("/hold-charge", "k", "1");
    service.app.gate.entered().await;
    assert_eq!(service.counts().await, (1, 0, 1), "the claim is committed before the body");
    for service in [&service, &other] {
        let twin = service.post("/hold-charge", "k", "1").await;
        assert_problem(&twin, 409, "in-progress");
        assert!(retry_after(&twin) <= 60);
        for (path, body) in [("/hold-charge", "2"), ("/charge", "1"), ("/pay", "1")] {
            assert_problem(&service.post(path, "k", body).await, 422, "idempotency-key-reuse");
        }
    }
    service.app.gate.open();
    let first = first.await.unwrap();
    assert_eq!(first.status, 201);
    assert_replay(&first, &other.post("/hold-charge", "k", "1").await);
    assert_eq!((service.counts().await, service.app.network.charges()), ((1, 1, 1), 1));
}

#[tokio::test]
async fn b18_a_running_handler_with_database_effects_keeps_its_key_from_one_with_external_effects() {
    let service = Service::of(routes(), 5, plain, || ().into_response()).await;
    let other = service.beside(routes()).await;
    let first = service.posting("/hold", "k", "1");
    service.app.gate.entered().await;
    assert_problem(&service.post("/charge", "k", "1").await, 422, "idempotency-key-reuse");
    // SQLite's one writer is busy: another process cannot learn whose key it is.
    if super::ABORTS {
        assert_problem(&other.post("/charge", "k", "1").await, 422, "idempotency-key-reuse");
    }
    service.app.gate.open();
    assert_eq!(first.await.unwrap().status, 201);
    assert_problem(&other.post("/charge", "k", "1").await, 422, "idempotency-key-reuse");
    assert_eq!((service.counts().await, service.app.network.charges()), ((1, 1, 1), 0));
}

#[tokio::test]
async fn b38_of_fifty_twins_at_two_instances_one_runs() {
    for _ in 0..3 {
        let service = Service::start(routes()).await;
        let other = service.beside(routes()).await;
        let answers = at_once(&[&service, &other], "/charge", &vec!["k".to_owned(); 50]).await;
        let ran = answers.iter().filter(|a| a.status == 201 && a.all("idempotent-replayed").is_empty()).count();
        let others = answers.iter().filter(|a| matches!(a.status, 201 | 409)).count();
        assert_eq!((ran, others), (1, 50), "{answers:?}");
        assert_eq!((service.counts().await, service.app.network.calls().len()), ((1, 1, 1), 1));
    }
}

#[tokio::test]
async fn a_twin_that_waits_gets_the_answer() {
    let service = Service::start(routes()).await;
    let other = service.beside(routes()).await;
    let first = service.posting("/patient", "k", "");
    service.app.gate.entered().await;
    let (here, there) = (service.posting("/patient", "k", ""), other.posting("/patient", "k", ""));
    service.app.gate.open();
    let first = first.await.unwrap();
    assert_replay(&first, &soon("the twin here", here).await.unwrap());
    assert_replay(&first, &soon("the twin there", there).await.unwrap());
    assert_eq!(service.counts().await, (1, 0, 1));
}

#[tokio::test]
async fn b60_retry_after_never_exceeds_what_is_left_of_the_lease() {
    let service = Service::start(routes()).await;
    let other = service.beside(routes()).await;
    let first = service.posting("/hold-charge", "k", "1");
    service.app.gate.entered().await;
    let left: i64 = sqlx::query_scalar(REMAINING).fetch_one(&service.pool).await.unwrap();
    assert!((50_000..=60_000).contains(&left), "{left} of the default lease");
    // A fraction of a second left: no whole second to be sent away for.
    service.execute(super::UNDER_A_SECOND).await;
    assert_eq!(retry_after(&other.post("/hold-charge", "k", "1").await), 0);
    // None left: the attempt is stalled until recovery or a person decides, and no retry runs it again.
    service.execute(LAPSE).await;
    for _ in 0..3 {
        assert_problem(&other.post("/hold-charge", "k", "1").await, 409, "in-progress");
        assert_problem(&other.post("/hold-charge", "k", "2").await, 422, "idempotency-key-reuse");
    }
    service.app.gate.open();
    assert_eq!(first.await.unwrap().status, 201, "nobody has taken the lease meanwhile");
    assert_eq!(service.counts().await, (1, 1, 1));
}

#[tokio::test]
async fn without_a_key_each_request_has_step_keys_of_its_own() {
    let service = saying(|| StatusCode::OK).await;
    for _ in 0..2 {
        assert_eq!(service.send("POST", "/optional", &[ALICE], "").await.status, 200);
    }
    assert_eq!(service.send("GET", "/optional", &[ALICE, (KEY, "k")], "").await.status, 200);
    assert_eq!((service.counts().await, service.app.network.charges()), ((3, 3, 0), 3));

    let service = saying(|| (StatusCode::CONFLICT, Settle::RunAgain)).await;
    assert_eq!(service.send("POST", "/optional", &[ALICE], "").await.status, 409);
    assert_eq!(service.counts().await, (1, 0, 0), "rolled back, and run once");
}

#[tokio::test]
async fn once_a_lease_has_run_out_the_database_answers_also_where_the_body_still_runs() {
    #[idempotent(scope = account, effects = external, lease = "200ms")]
    async fn hang(_: &mut Attempt<Db>, State(app): State<App>, account: Account) -> StatusCode {
        app.runs.begin();
        if app.runs.count() == 1 {
            app.gate.pass().await;
        }
        StatusCode::CREATED
    }

    let routes = || Router::new().route("/hang", post(hang));
    let service = Service::start(routes()).await;
    let other = service.beside(routes()).await;
    let hangs = service.posting("/hang", "k", "1");
    service.app.gate.entered().await;
    // It is taken from the body that hangs, and the key is freed and used for another request in another process.
    service.execute("DELETE FROM idem_records").await;
    let second = other.post("/hang", "k", "2").await;
    assert_eq!(second.status, 201);
    soon("the lease's end in this process", async { while service.post("/hang", "k", "2").await.status != 201 {} })
        .await;
    assert_replay(&second, &service.post("/hang", "k", "2").await);
    assert_problem(&service.post("/hang", "k", "1").await, 422, "idempotency-key-reuse");
    service.app.gate.open();
    assert_problem(&hangs.await.unwrap(), 503, "idempotency-outcome-unknown");
    assert_replay(&second, &service.post("/hang", "k", "2").await);
}
