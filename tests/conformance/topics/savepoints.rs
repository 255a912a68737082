//! Savepoints of the handler's own: none of them keeps what a response rolls back, and none passes for the claim's.
//! Nested transactions of sqlx are in `transaction`.

use axum::{
    Router,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::post,
};
use idem_runtime::{Attempt, Settle, idempotent};
use sqlx::{AssertSqlSafe, Executor};

use super::{Connection, Db, app::*};

/// Names that a handler may choose: its own, and the beginning of ours.
const NAMES: [&str; 2] = ["own", "idem_claim"];

async fn nest(tx: &mut Connection, account: &Account, name: &str) {
    write(tx, account).await;
    tx.execute(AssertSqlSafe(format!("SAVEPOINT {name}"))).await.unwrap();
    write(tx, account).await;
}

fn end(how: &str) -> Response {
    match how {
        "nothing" => (StatusCode::OK, Settle::NothingExecuted).into_response(),
        status => StatusCode::from_u16(status.parse().unwrap()).unwrap().into_response(),
    }
}

#[idempotent(scope = account)]
async fn nests(
    tx: &mut Connection,
    State(app): State<App>,
    account: Account,
    Path((name, how)): Path<(String, String)>,
) -> Response {
    app.runs.begin();
    nest(tx, &account, &name).await;
    end(&how)
}

#[idempotent(scope = account, effects = external, on_server_error = store)]
async fn nests_at_the_end(
    attempt: &mut Attempt<Db>,
    State(app): State<App>,
    account: Account,
    Path((name, how)): Path<(String, String)>,
) -> Response {
    app.runs.begin();
    nest(attempt.transaction().await.unwrap(), &account, &name).await;
    end(&how)
}

/// Ends the transaction and opens another that looks like ours.
#[idempotent(scope = account)]
async fn forges(tx: &mut Connection, State(app): State<App>, account: Account) -> StatusCode {
    app.runs.begin();
    write(tx, &account).await;
    tx.execute(sqlx::raw_sql("ROLLBACK; BEGIN; SAVEPOINT idem_claim")).await.unwrap();
    StatusCode::CREATED
}

/// On a small pool, so that a connection which is not sound afterwards shows.
async fn service() -> Service {
    let router =
        Router::new().route("/{name}/{how}", post(nests)).route("/external/{name}/{how}", post(nests_at_the_end));
    Service::of(router.route("/forges", post(forges)), 2, plain, || StatusCode::OK.into_response()).await
}

#[tokio::test]
async fn a_savepoint_of_the_handler_keeps_nothing_whatever_its_name() {
    for path in ["", "/external"] {
        for name in NAMES {
            for (how, status, rows, records) in
                [("402", 402, 0, 1), ("500", 500, 0, 1), ("nothing", 200, 0, 0), ("201", 201, 2, 1)]
            {
                let service = service().await;
                let first = service.post(&format!("{path}/{name}/{how}"), "k", "").await;
                assert_eq!(first.status, status, "{path} {name} {how}");
                assert_eq!(service.counts().await, (1, rows, records), "{path} {name} {how}");
                assert_eq!(service.post("/own/201", "next", "").await.status, 201, "after {path} {name} {how}");
            }
        }
    }
}

#[tokio::test]
async fn a_transaction_with_a_savepoint_of_a_known_name_does_not_pass_for_the_claims() {
    let service = service().await;
    assert_problem(&service.post("/forges", "k", "").await, 500, "idempotency-transaction-ended");
    assert_eq!(service.counts().await, (1, 0, 0));
}
