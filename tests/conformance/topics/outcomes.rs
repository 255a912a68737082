//! The outcome of the handler's writes and of the key, for each way in which a body can end.
//! Writes commit with 2xx and 3xx; every response is stored; `Settle` and `on_server_error` choose otherwise.

use std::sync::atomic::{AtomicBool, Ordering};

use axum::{
    Router,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{any, post},
};
use idem_runtime::{Code, Settle, idempotent};
use tower_http::catch_panic::CatchPanicLayer;

use super::{Connection, app::*};

/// A handler's own error; the number is its status.
#[derive(Debug, thiserror::Error)]
#[error("refused with {0}")]
struct Refused(u16);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (StatusCode::from_u16(self.0).unwrap(), self.to_string()).into_response()
    }
}

/// Panics where axum turns it into a response.
struct Explosive;

impl IntoResponse for Explosive {
    fn into_response(self) -> Response {
        panic!("in into_response")
    }
}

/// The body of every handler below: writes a row, then ends as the path says.
async fn end(tx: &mut Connection, app: &App, account: &Account, how: &str) -> Result<Response, Refused> {
    app.runs.begin();
    write(tx, account).await;
    let run = format!("run {}", app.runs.count());
    match how {
        "panic" => panic!("as asked"),
        "explode" => Ok((StatusCode::OK, Explosive).into_response()),
        "keep" => Ok((StatusCode::PAYMENT_REQUIRED, Settle::KeepWrites, run).into_response()),
        "keep500" => Ok((StatusCode::INTERNAL_SERVER_ERROR, Settle::KeepWrites, run).into_response()),
        "drop" => Ok((StatusCode::OK, Settle::DropWrites, run).into_response()),
        "nothing" => Ok((StatusCode::UNPROCESSABLE_ENTITY, Settle::NothingExecuted, run).into_response()),
        "nothing200" => Ok((StatusCode::OK, Settle::NothingExecuted, run).into_response()),
        how => match (how.strip_prefix("err"), how.parse()) {
            (Some(status), _) => Err(Refused(status.parse().unwrap())),
            (None, Ok(status)) => Ok((StatusCode::from_u16(status).unwrap(), run).into_response()),
            (None, Err(_)) => panic!("no such end: {how}"),
        },
    }
}

#[idempotent(scope = account)]
async fn ends(
    tx: &mut Connection,
    State(app): State<App>,
    account: Account,
    Path(how): Path<String>,
) -> Result<Response, Refused> {
    end(tx, &app, &account, &how).await
}

#[idempotent(scope = account, on_server_error = release)]
async fn released(
    tx: &mut Connection,
    State(app): State<App>,
    account: Account,
    Path(how): Path<String>,
) -> Result<Response, Refused> {
    end(tx, &app, &account, &how).await
}

#[idempotent(scope = account, key = optional)]
async fn optional(
    tx: &mut Connection,
    State(app): State<App>,
    account: Account,
    Path(how): Path<String>,
) -> Result<Response, Refused> {
    end(tx, &app, &account, &how).await
}

fn routes() -> Router<App> {
    let router = Router::new().route("/{how}", any(ends)).route("/optional/{how}", post(optional));
    router.route("/released/{how}", post(released))
}

/// On a pool of one, so that a connection which is not given back shows.
async fn service() -> Service {
    Service::of(routes(), 1, plain, || StatusCode::OK.into_response()).await
}

#[tokio::test]
async fn b34_b59_whatever_the_body_answers_is_stored_and_writes_stay_with_2xx_and_3xx() {
    for (how, status, rows) in [
        ("200", 200, 1),
        ("202", 202, 1),
        ("303", 303, 1),
        ("402", 402, 0),
        ("404", 404, 0),
        ("409", 409, 0),
        ("422", 422, 0),
        ("500", 500, 0),
        ("503", 503, 0),
        ("err402", 402, 0),
        ("err500", 500, 0),
        ("err303", 303, 1),
        ("keep", 402, 1),
        ("keep500", 500, 1),
        ("drop", 200, 0),
    ] {
        let service = service().await;
        let first = service.post(&format!("/{how}"), "k", "").await;
        assert_eq!(first.status, status, "{how}");
        assert_eq!(service.counts().await, (1, rows, 1), "{how}");
        for _ in 0..2 {
            assert_replay(&first, &service.post(&format!("/{how}"), "k", "").await);
        }
        assert_eq!(service.counts().await, (1, rows, 1), "{how}");
        assert_eq!(service.post("/200", "other", "").await.text(), "run 2", "the connection is sound after {how}");
    }
}

#[tokio::test]
async fn b59_nothing_executed_rolls_back_and_leaves_the_key_free() {
    let service = service().await;
    for (runs, how, status) in [(1, "nothing", 422), (2, "nothing", 422), (3, "nothing200", 200)] {
        let answer = service.post(&format!("/{how}"), "k", "").await;
        assert_eq!((answer.status, answer.header("idempotent-replayed")), (status, None));
        assert_eq!(service.counts().await, (runs, 0, 0));
    }
    // Free for another request, too.
    assert_eq!(service.post("/200", "k", "changed").await.text(), "run 4");
    assert_eq!(service.counts().await, (4, 1, 1));
}

#[tokio::test]
async fn b48_a_panic_is_a_stored_500_and_the_pool_stays_healthy() {
    for layer in [false, true] {
        for how in ["panic", "explode"] {
            let router = if layer { routes().layer(CatchPanicLayer::new()) } else { routes() };
            let service = Service::of(router, 1, plain, || StatusCode::OK.into_response()).await;
            let first = service.post(&format!("/{how}"), "k", "").await;
            assert_problem(&first, 500, "idempotency-handler-panicked");
            assert!(!first.text().contains("as asked"), "the panic's message stays inside");
            assert_eq!(service.counts().await, (1, 0, 1));
            assert_replay(&first, &service.post(&format!("/{how}"), "k", "").await);
            for run in 2..=11 {
                let key = format!("k{run}");
                assert_eq!(service.post("/200", &key, "").await.text(), format!("run {run}"));
            }
            assert_eq!(service.counts().await, (11, 10, 11));
        }
    }
}

#[tokio::test]
async fn b48_on_server_error_release_frees_the_key_for_5xx_and_panics_alone() {
    let service = service().await;
    let mut runs = 0;
    for (how, status) in [("500", 500), ("err503", 503), ("panic", 500), ("explode", 500)] {
        for _ in 0..2 {
            let answer = service.post(&format!("/released/{how}"), "k", "").await;
            runs += 1;
            assert_eq!((answer.status, answer.header("idempotent-replayed")), (status, None), "{how}");
            assert_eq!(service.counts().await, (runs, 0, 0), "{how}");
        }
    }
    // What one response asks for wins over the option.
    let kept = service.post("/released/keep500", "kept", "").await;
    assert_eq!(kept.status, 500);
    assert_replay(&kept, &service.post("/released/keep500", "kept", "").await);
    assert_eq!(service.counts().await, (runs + 1, 1, 1));
    runs += 1;
    let declined = service.post("/released/402", "k", "").await;
    assert_replay(&declined, &service.post("/released/402", "k", "").await);
    assert_eq!(service.counts().await, (runs + 1, 1, 2));
}

#[tokio::test]
async fn unprotected_runs_are_transactions_by_the_same_rules() {
    for (method, path) in [("POST", "/optional"), ("PUT", ""), ("GET", "")] {
        let service = service().await;
        let mut expected = (0, 0, 0);
        for (how, status, rows) in [
            ("200", 200, 1),
            ("303", 303, 1),
            ("404", 404, 0),
            ("err500", 500, 0),
            ("keep", 402, 1),
            ("drop", 200, 0),
            ("nothing", 422, 0),
            ("panic", 500, 0),
            ("explode", 500, 0),
            ("200", 200, 1),
        ] {
            let answer = service.send(method, &format!("{path}/{how}"), &[ALICE], "").await;
            assert_eq!((answer.status, answer.header("idempotent-replayed")), (status, None), "{method} {how}");
            expected = (expected.0 + 1, expected.1 + rows, 0);
            assert_eq!(service.counts().await, expected, "{method} {how}");
        }
    }
}

#[tokio::test]
async fn a_panic_is_rolled_back_however_the_application_renders_it() {
    // Some formats say 200 to everything and put the error into the body.
    let service = Service::of(
        routes(),
        1,
        |builder| builder.render(|problem| (StatusCode::OK, problem.code().as_str()).into_response()),
        || StatusCode::OK.into_response(),
    )
    .await;
    let first = service.post("/panic", "k", "").await;
    assert_eq!((first.status, first.text()), (200, Code::HandlerPanicked.as_str()));
    assert_eq!(service.counts().await, (1, 0, 1));
    assert_replay(&first, &service.post("/panic", "k", "").await);
    assert_eq!(service.post("/released/panic", "released", "").await.status, 200);
    assert_eq!(service.counts().await, (2, 0, 1), "released: nothing stored");
}

static REVOKED: AtomicBool = AtomicBool::new(false);

/// Checks a permission inside the body.
#[idempotent(scope = account)]
async fn permitted(tx: &mut Connection, State(app): State<App>, account: Account) -> Response {
    app.runs.begin();
    if REVOKED.load(Ordering::SeqCst) {
        return StatusCode::FORBIDDEN.into_response();
    }
    write(tx, &account).await;
    (StatusCode::CREATED, "done").into_response()
}

#[tokio::test]
async fn b36_a_replay_asks_nobody_again() {
    let service = Service::start(Router::new().route("/", post(permitted))).await;
    let first = service.post("/", "k", "").await;
    assert_eq!(first.status, 201);
    service.execute("DELETE FROM payments").await;
    REVOKED.store(true, Ordering::SeqCst);
    assert_replay(&first, &service.post("/", "k", "").await);
    assert_eq!(service.counts().await, (1, 0, 1));
    assert_eq!(service.post("/", "new", "").await.status, 403);
}
