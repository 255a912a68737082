//! Throughput of one handler on PostgreSQL, 16 connections: bare transaction, new key, replay, conflict, in one run.
//! `IDEM_TEST_POSTGRES=postgres://… cargo bench -p idem-benches`; the database's own settings are printed with it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::Body,
    extract::{FromRef, State},
    http::{Request, StatusCode},
    routing::post,
};
use idem_runtime::{Idempotency, Scope, ScopeId, idempotent};
use sqlx::{PgConnection, PgPool, Postgres, postgres::PgPoolOptions};
use tokio::sync::Notify;
use tower::ServiceExt;

const CONNECTIONS: u32 = 16;
const ROUND: Duration = Duration::from_secs(2);
/// The rounds alternate, so that what else the machine does falls on all of them alike.
const ROUNDS: usize = 5;

#[derive(Clone)]
struct App {
    idempotency: Idempotency<Postgres>,
    pool: PgPool,
    /// Holds the one payment open that the conflicts run into.
    held: Arc<Notify>,
}

impl FromRef<App> for Idempotency<Postgres> {
    fn from_ref(app: &App) -> Self {
        app.idempotency.clone()
    }
}

struct Account;

impl<S: Sync> axum::extract::FromRequestParts<S> for Account {
    type Rejection = StatusCode;

    async fn from_request_parts(_: &mut axum::http::request::Parts, _: &S) -> Result<Self, StatusCode> {
        Ok(Self)
    }
}

impl Scope for Account {
    fn scope_id(&self) -> ScopeId {
        ScopeId::new("acct_1")
    }
}

async fn pay(connection: &mut PgConnection, body: &str) -> (StatusCode, &'static str) {
    sqlx::query("INSERT INTO payments (amount, note) VALUES (1999, $1)")
        .bind(body)
        .execute(connection)
        .await
        .expect("the payment is written");
    (StatusCode::CREATED, r#"{"id":"pay_1","amount":1999,"currency":"USD","status":"succeeded"}"#)
}

async fn bare(_: Account, State(app): State<App>, body: String) -> (StatusCode, &'static str) {
    let mut transaction = app.pool.begin().await.expect("a transaction");
    let answer = pay(&mut transaction, &body).await;
    transaction.commit().await.expect("committed");
    answer
}

#[idempotent(scope = account)]
async fn keyed(account: Account, tx: &mut PgConnection, body: String) -> (StatusCode, &'static str) {
    pay(tx, &body).await
}

#[idempotent(scope = account)]
async fn slow(account: Account, State(app): State<App>, tx: &mut PgConnection) -> (StatusCode, &'static str) {
    let answer = pay(tx, "held").await;
    app.held.notified().await;
    answer
}

#[derive(Clone, Copy)]
enum Keys {
    None,
    Fresh,
    One(&'static str),
}

/// Requests answered in one round by as many workers as there are connections, with the status that each must have.
async fn round(router: &Router, path: &'static str, keys: Keys, expected: StatusCode) -> u64 {
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    let end = Instant::now() + ROUND;
    let workers: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let router = router.clone();
            tokio::spawn(async move {
                let mut answered = 0;
                while Instant::now() < end {
                    let mut request = Request::post(path);
                    match keys {
                        Keys::None => {}
                        Keys::Fresh => {
                            let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
                            let process = std::process::id();
                            request = request.header("idempotency-key", format!("bench-{process}-{serial}"));
                        }
                        Keys::One(key) => request = request.header("idempotency-key", key),
                    }
                    let request = request.body(Body::from(r#"{"amount":1999}"#)).expect("a request");
                    let response = router.clone().oneshot(request).await.expect("infallible");
                    assert_eq!(response.status(), expected, "{path}");
                    answered += 1;
                }
                answered
            })
        })
        .collect();
    let mut total = 0;
    for worker in workers {
        total += worker.await.expect("a worker");
    }
    total
}

#[tokio::main]
async fn main() {
    let Ok(url) = std::env::var("IDEM_TEST_POSTGRES") else {
        eprintln!("set IDEM_TEST_POSTGRES to the URL of a PostgreSQL server whose database this may write to");
        std::process::exit(2);
    };
    // Two connections more than workers: one for the held payment, one for the setting up.
    let pool = PgPoolOptions::new().max_connections(CONNECTIONS + 2).connect(&url).await.expect("a server");
    let router = set_up(&pool).await;

    let first = Request::post("/keyed").header("idempotency-key", "replayed").body(Body::from(r#"{"amount":1999}"#));
    let first = router.clone().oneshot(first.expect("a request")).await.expect("infallible");
    assert!(first.status().is_success());
    let held = Request::post("/slow").header("idempotency-key", "held").body(Body::from(r#"{"amount":1999}"#));
    tokio::spawn(router.clone().oneshot(held.expect("a request")));

    let cases = [
        ("bare transaction", "/bare", Keys::None, StatusCode::CREATED),
        ("new key", "/keyed", Keys::Fresh, StatusCode::CREATED),
        ("replay", "/keyed", Keys::One("replayed"), StatusCode::CREATED),
        ("conflict", "/slow", Keys::One("held"), StatusCode::CONFLICT),
    ];
    for (_, path, keys, expected) in &cases[..2] {
        round(&router, path, *keys, *expected).await;
    }
    let mut totals = [0_u64; 4];
    for _ in 0..ROUNDS {
        for (total, (_, path, keys, expected)) in totals.iter_mut().zip(cases) {
            *total += round(&router, path, keys, expected).await;
        }
    }
    print(&pool, &cases.map(|(name, ..)| name), &totals).await;
}

async fn set_up(pool: &PgPool) -> Router {
    let idempotency = Idempotency::builder(pool.clone()).build();
    idempotency.migrate().await.expect("migrated");
    for statement in [
        "DROP TABLE IF EXISTS payments",
        "CREATE TABLE payments (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, amount int, note text)",
        "DELETE FROM idem_records",
    ] {
        sqlx::query(statement).execute(pool).await.expect("set up");
    }
    let app = App { idempotency, pool: pool.clone(), held: Arc::new(Notify::new()) };
    Router::new().route("/bare", post(bare)).route("/keyed", post(keyed)).route("/slow", post(slow)).with_state(app)
}

async fn print(pool: &PgPool, names: &[&str], totals: &[u64]) {
    let settings = "SELECT version() || ', fsync ' || current_setting('fsync')";
    let settings: String = sqlx::query_scalar(settings).fetch_one(pool).await.expect("settings");
    println!("{CONNECTIONS} connections, {ROUNDS} rounds of {ROUND:?} each, alternating");
    println!("{settings}\n");
    println!("{:<18} {:>10} {:>8}", "", "requests/s", "ratio");
    let bare = totals[0].max(1) as f64;
    for (name, total) in names.iter().zip(totals) {
        let total = *total as f64;
        println!("{name:<18} {:>10.0} {:>8.2}", total / (ROUNDS as f64 * ROUND.as_secs_f64()), total / bare);
    }
}
