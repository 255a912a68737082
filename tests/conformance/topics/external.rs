//! External effects: what is committed before the body, what a twin meets meanwhile, and how an attempt ends.
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

/// Charges, writes a row, and answers what the test chose.
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

/// Runs SQL of its own in the completing transaction, and ignores how that ends.
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
    // SQLite's one writer is busy: another process cannot be told whose key it is.
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
    service.execute(super::HALF_A_SECOND).await;
    assert_eq!(retry_after(&other.post("/hold-charge", "k", "1").await), 0);
    // None left: the attempt is dead until somebody decides, and no retry runs it again.
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
async fn b34_every_answer_is_stored_and_rows_stay_with_2xx_and_3xx() {
    for (status, rows) in [(200, 1), (204, 1), (303, 1), (402, 0), (409, 0), (500, 0), (503, 0)] {
        let service = saying(move || StatusCode::from_u16(status).unwrap()).await;
        let first = service.post("/say", "k", "1").await;
        assert_eq!(first.status, status);
        assert_replay(&first, &service.post("/say", "k", "1").await);
        assert_eq!(service.counts().await, (1, rows, 1), "{status}");
    }
    for (mark, status, counts) in [
        (Settle::KeepWrites, 402, (1, 1, 1)),
        (Settle::DropWrites, 200, (1, 0, 1)),
        (Settle::RunAgain, 200, (1, 0, 1)),
        (Settle::NothingExecuted, 400, (1, 0, 0)),
        (Settle::NothingExecuted, 503, (1, 0, 0)),
    ] {
        let service = saying(move || (StatusCode::from_u16(status).unwrap(), mark)).await;
        assert_eq!(service.post("/say", "k", "1").await.status, status);
        assert_eq!(service.counts().await, counts, "{mark:?}");
    }
}

#[tokio::test]
async fn b48_a_panic_is_stored_as_a_500() {
    let service = saying(|| -> StatusCode { panic!("on purpose") }).await;
    let first = service.post("/say", "k", "1").await;
    assert_problem(&first, 500, "idempotency-handler-panicked");
    assert_replay(&first, &service.post("/say", "k", "1").await);
    assert_eq!((service.counts().await, in_progress(&service).await), ((1, 0, 1), 0));
}

#[tokio::test]
async fn a_free_key_runs_again_with_the_same_step_key() {
    let service = saying(|| (StatusCode::SERVICE_UNAVAILABLE, Settle::NothingExecuted)).await;
    for _ in 0..2 {
        assert_eq!(service.post("/say", "k", "1").await.status, 503);
    }
    assert_eq!((service.counts().await, service.app.network.charges()), ((2, 0, 0), 1));
    assert_eq!(service.app.network.calls().len(), 2);
}

#[tokio::test]
async fn b75_step_keys_differ_between_accounts_and_keys() {
    let service = Service::start(routes()).await;
    service.post("/charge", "k", "1").await;
    service.post("/charge", "k2", "1").await;
    service.send("POST", "/charge", &[BOB, (KEY, "k")], "1").await;
    service.post("/alone", "k3", "").await;
    assert_eq!((service.counts().await, service.app.network.charges()), ((4, 3, 4), 4));
}

#[tokio::test]
async fn reconcile_leaves_a_5xx_and_a_panic_to_the_recovery() {
    let five_hundred: fn() -> Response = || (StatusCode::BAD_GATEWAY, "network").into_response();
    let panics: fn() -> Response = || panic!("on purpose");
    let too_large: fn() -> Response = || "x".repeat(101).into_response();
    for (answer, status) in [(five_hundred, 502), (panics, 500), (too_large, 500)] {
        let service = saying(answer).await;
        assert_eq!(service.post("/reconcile", "k", "1").await.status, status);
        assert_eq!((service.counts().await, in_progress(&service).await), ((1, 0, 1), 1));
        assert_problem(&service.post("/reconcile", "k", "1").await, 409, "in-progress");
        assert_eq!(service.app.idempotency.stalled().await.unwrap().len(), 1, "its lease ended at once");
    }
    let service = saying(|| StatusCode::PAYMENT_REQUIRED).await;
    let first = service.post("/reconcile", "k", "1").await;
    assert_replay(&first, &service.post("/reconcile", "k", "1").await);
}

#[tokio::test]
async fn an_application_wide_release_frees_no_key_whose_effect_may_have_happened() {
    let defaults = |builder: idem_runtime::Builder<Db>| builder.on_server_error(OnServerError::Release);
    let service = Service::of(routes(), 5, defaults, || StatusCode::INTERNAL_SERVER_ERROR.into_response()).await;
    let first = service.post("/say", "k", "1").await;
    assert_replay(&first, &service.post("/say", "k", "1").await);
    assert_eq!(service.counts().await, (1, 0, 1));
}

#[tokio::test]
async fn a_response_that_cannot_be_stored_is_a_stored_500() {
    let defaults = |builder: idem_runtime::Builder<Db>| builder.max_response(1000);
    let service = Service::of(routes(), 5, defaults, || "x".repeat(1001).into_response()).await;
    let first = service.post("/say", "k", "1").await;
    assert_problem(&first, 500, "idempotency-response-too-large");
    assert_replay(&first, &service.post("/say", "k", "1").await);
    assert_eq!(service.counts().await, (1, 0, 1));

    // Where not even that fits, the recovery decides.
    let defaults = |builder: idem_runtime::Builder<Db>| builder.max_response(10);
    let service = Service::of(routes(), 5, defaults, || "x".repeat(11).into_response()).await;
    assert_problem(&service.post("/say", "k", "1").await, 500, "idempotency-response-too-large");
    assert_eq!((service.counts().await, in_progress(&service).await), ((1, 0, 1), 1));
}

#[tokio::test]
async fn b43_b56_a_completing_transaction_that_cannot_commit_leaves_the_record_in_progress() {
    let deferred = "INSERT INTO deferred VALUES (4711)";
    let broken = "INSERT INTO nowhere VALUES (1)";
    for (sql, rows, codes) in [
        (deferred, 0, &["idempotency-transaction-aborted"][..]),
        ("COMMIT", 1, &["idempotency-transaction-ended"]),
        ("ROLLBACK", 0, &["idempotency-transaction-ended"]),
        ("ROLLBACK; BEGIN", 0, &["idempotency-transaction-ended"]),
        (broken, 0, &["idempotency-transaction-aborted"]),
    ] {
        if sql == broken && !super::ABORTS {
            continue;
        }
        let service = Service::of(routes(), 1, plain, || ().into_response()).await;
        service
            .execute("CREATE TABLE deferred (payment INTEGER REFERENCES payments (id) DEFERRABLE INITIALLY DEFERRED)")
            .await;
        let answer = service.send("POST", "/meddle", &[ALICE, (KEY, "k"), ("content-type", "text/plain")], sql).await;
        assert_eq!(answer.status, 500, "{sql}: {}", answer.text());
        assert!(codes.contains(&answer.json()["code"].as_str().unwrap()), "{sql}: {}", answer.text());
        assert_eq!((service.counts().await, in_progress(&service).await), ((1, rows, 1), 1), "{sql}");
        let again = service.send("POST", "/meddle", &[ALICE, (KEY, "k"), ("content-type", "text/plain")], sql).await;
        assert_problem(&again, 409, "in-progress");
        assert_eq!(service.app.idempotency.stalled().await.unwrap().len(), 1, "{sql}");
        // The pool's only connection is sound.
        assert_eq!(service.post("/pay", "k2", "1").await.status, 201, "{sql}");
    }
}

#[tokio::test]
async fn b49_a_pool_of_one_is_enough() {
    let service = Service::of(routes(), 1, plain, || StatusCode::OK.into_response()).await;
    for path in ["/charge", "/alone", "/say"] {
        let first = service.post(path, path, "1").await;
        assert!(first.status < 300, "{path}");
        assert_replay(&first, &service.post(path, path, "1").await);
    }
    let first = service.posting("/hold-charge", "k", "1");
    service.app.gate.entered().await;
    assert_eq!(service.post("/pay", "k2", "1").await.status, 201, "a running attempt holds no connection");
    service.app.gate.open();
    assert_eq!(first.await.unwrap().status, 201);
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
async fn b64_past_its_retention_a_key_is_new_with_either_kind_of_effects() {
    let service = Service::start(routes()).await;
    service.post("/charge", "k", "1").await;
    service.age(24 * 60 * 60 + 1).await;
    assert_eq!(service.post("/pay", "k", "1").await.text(), "run 2 for alice");
    service.age(24 * 60 * 60 + 1).await;
    let third = service.post("/charge", "k", "1").await;
    assert_eq!(third.text(), "run 3 for alice");
    assert_replay(&third, &service.post("/charge", "k", "1").await);
    assert_eq!(service.counts().await, (3, 3, 1));
}

#[tokio::test]
async fn b64_a_record_in_progress_is_never_pruned_and_never_expires() {
    let service = Service::start(routes()).await;
    let first = service.posting("/hold-charge", "k", "1");
    service.app.gate.entered().await;
    service.execute(LAPSE).await;
    service.execute(super::BEGAN_LONG_AGO).await;
    assert_eq!(service.app.idempotency.prune().await.unwrap(), 0);
    assert_problem(&service.beside(routes()).await.post("/hold-charge", "k", "1").await, 409, "in-progress");
    service.app.gate.open();
    assert_eq!(first.await.unwrap().status, 201);
}

#[tokio::test]
async fn what_is_left_over_of_a_transaction_is_no_type_error() {
    // A connection and a transaction both serve, as with database effects.
    async fn helper(connection: &mut Connection) -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM payments").fetch_one(connection).await.unwrap()
    }

    #[idempotent(scope = account, effects = external)]
    async fn counts(attempt: &mut Attempt<Db>, _: State<App>, account: Account) -> HeaderAndText {
        assert_eq!(attempt.operation(), "counts");
        write(attempt.transaction().await.unwrap(), &account).await;
        let count = helper(attempt.transaction().await.unwrap()).await;
        ([("x-step", HeaderValue::from(attempt.key("s")))], count.to_string())
    }
    type HeaderAndText = ([(&'static str, HeaderValue); 1], String);

    let service = Service::start(Router::new().route("/counts", post(counts))).await;
    let answer = service.send(Method::POST.as_str(), "/counts", &[ALICE, (KEY, "k")], "").await;
    assert_eq!((answer.text(), answer.header("x-step").map(str::len)), ("1", Some(32)));
}

#[tokio::test]
async fn the_longest_retention_is_one() {
    #[idempotent(scope = account, effects = external, retention = "36500d")]
    async fn for_ever(_: &mut Attempt<Db>, State(app): State<App>, account: Account) -> StatusCode {
        app.runs.begin();
        StatusCode::CREATED
    }

    let service = Service::start(Router::new().route("/ever", post(for_ever))).await;
    let first = service.post("/ever", "k", "").await;
    assert_replay(&first, &service.post("/ever", "k", "").await);
    assert_eq!(service.counts().await, (1, 0, 1));
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
    // It is taken from the body that hangs, and the key is freed and used for another request elsewhere.
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

#[tokio::test]
async fn a_handler_that_gives_up_on_the_transaction_leaves_no_connection_inside_one() {
    #[idempotent(scope = account, effects = external)]
    async fn hasty(attempt: &mut Attempt<Db>, State(app): State<App>, account: Account, polls: String) -> StatusCode {
        app.runs.begin();
        cut(polls.parse().unwrap(), attempt.transaction()).await;
        StatusCode::CREATED
    }

    // Which step of the opening it falls into, nobody can say; with several rounds it falls into each.
    for polls in (1..8).cycle().take(28) {
        let service = Service::of(Router::new().route("/hasty", post(hasty)), 1, plain, || ().into_response()).await;
        let other = service.beside(routes()).await;
        for key in ["a", "b"] {
            assert_eq!(service.post("/hasty", key, polls.to_string()).await.status, 201);
        }
        assert_eq!(other.counts().await, (2, 0, 2), "{polls}: what was answered is committed");
        assert_eq!(in_progress(&other).await, 0, "{polls}");
    }
}
