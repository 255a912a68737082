//! The handler charges a network, which is a table that no transaction of ours is in, and stays until the test lets it go.

use std::{env, error::Error, time::Duration};

use axum::{
    Json, Router,
    extract::{FromRef, State},
    http::StatusCode,
    routing::post,
};
use idem_runtime::{
    Attempt, Idempotency, LeaseDuration, idempotent,
    recovery::{BoxError, Reconciler, StalledAttempt, Verdict},
};
use idem_tests::service::Account;
use serde_json::{Value, json};
use sqlx::{Executor, Pool};

use super::Db;

/// What the network has, what the handler writes, and which attempts the test has let through.
const TABLES: [&str; 3] = [
    "CREATE TABLE IF NOT EXISTS ledger (step VARCHAR(40) PRIMARY KEY, calls INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS effects (mark VARCHAR(40) NOT NULL)",
    "CREATE TABLE IF NOT EXISTS let_through (mark VARCHAR(40) NOT NULL)",
];

#[derive(Clone)]
struct App {
    pool: Pool<Db>,
    idempotency: Idempotency<Db>,
}

impl FromRef<App> for Idempotency<Db> {
    fn from_ref(app: &App) -> Self {
        app.idempotency.clone()
    }
}

#[idempotent(scope = account, effects = external)]
async fn charge(
    account: Account,
    State(app): State<App>,
    attempt: &mut Attempt<Db>,
    mark: String,
) -> (StatusCode, &'static str) {
    drop(account);
    let called = sqlx::query(
        "INSERT INTO ledger (step, calls) VALUES ($1, 1) ON CONFLICT (step) DO UPDATE SET calls = ledger.calls + 1",
    );
    called.bind(attempt.key("charge").to_string()).execute(&app.pool).await.expect("a charge");
    let let_through = "SELECT count(*) FROM let_through WHERE mark = $1";
    while sqlx::query_scalar::<_, i64>(let_through).bind(&mark).fetch_one(&app.pool).await.expect("a count") == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let written = match attempt.transaction().await {
        Ok(transaction) => {
            sqlx::query("INSERT INTO effects (mark) VALUES ($1)").bind(&mark).execute(&mut **transaction).await.is_ok()
        }
        Err(_) => false,
    };
    if written { (StatusCode::CREATED, "by the attempt") } else { (StatusCode::INTERNAL_SERVER_ERROR, "not written") }
}

struct AskLedger(Pool<Db>);

impl Reconciler<Db> for AskLedger {
    async fn reconcile(&self, _: &StalledAttempt, attempt: &mut Attempt<Db>) -> Result<Verdict, BoxError> {
        let charged = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM ledger WHERE step = $1");
        if charged.bind(attempt.key("charge").to_string()).fetch_one(&self.0).await? == 0 {
            return Ok(Verdict::NeverExecuted);
        }
        let written = sqlx::query("INSERT INTO effects (mark) VALUES ('recovered')");
        written.execute(&mut **attempt.transaction().await?).await?;
        Ok(Verdict::completed((StatusCode::CREATED, "by the recovery")))
    }
}

/// One sweep, and its report.
async fn sweep(State(app): State<App>) -> Json<Value> {
    let recovery = app.idempotency.recovery().reconciler("charge", AskLedger(app.pool.clone()));
    let swept = recovery.sweep().await.expect("a sweep");
    Json(json!({ "completed": swept.completed, "freed": swept.released, "failed": swept.failed }))
}

/// The attempts that are stalled now. Nothing here decides them.
async fn look(State(app): State<App>) -> Json<Value> {
    let swept = app.idempotency.recovery().sweep().await.expect("a sweep");
    let stalled = app.idempotency.stalled().await.expect("a list");
    Json(json!({ "unattended": swept.no_reconciler, "stalled": stalled.len() }))
}

pub async fn serve(url: &str) -> Result<(), Box<dyn Error>> {
    let pool = Pool::<Db>::connect(url).await?;
    let lease = LeaseDuration::new(Duration::from_millis(env::var("LEASE")?.parse()?))?;
    let idempotency = Idempotency::builder(pool.clone()).lease(lease).build();
    idempotency.migrate().await?;
    for table in TABLES {
        pool.execute(table).await?;
    }
    let app = App { pool, idempotency };
    let router = Router::new()
        .route("/charge", post(charge))
        .route("/sweep", post(sweep))
        .route("/look", post(look))
        .with_state(app);
    let listener = tokio::net::TcpListener::bind(env::var("LISTEN")?).await?;
    println!("listening on http://{}", listener.local_addr()?);
    Ok(axum::serve(listener, router).await?)
}
