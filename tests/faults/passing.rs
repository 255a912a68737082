//! Faults of the database that time or another connection heals, met by the handler's own statements on PostgreSQL.
//! None of them is stored: the key is free again, and the retry runs as soon as the fault is gone.

use axum::{
    Router,
    extract::{FromRef, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::post,
};
use idem_runtime::{Builder, Idempotency, idempotent};
use idem_tests::{
    assertions::{assert_problem, assert_ran, count, records},
    databases::{Postgres, postgres},
    gate::Runs,
    http::{self, RawResponse, Server},
    log_capture::{heard, listen},
    service::Account,
};
use sqlx::{AssertSqlSafe, Executor, PgConnection, PgPool, Postgres as Db, postgres::PgPoolOptions};

mod server_errors;

const UNAVAILABLE: &str = "idempotency-store-unavailable";

/// An effect, and a fault that an administrator can switch on and off.
const TABLES: &str = "\
    CREATE TABLE effects (mark text UNIQUE); \
    CREATE TABLE switch (broken boolean); \
    INSERT INTO switch VALUES (true); \
    CREATE FUNCTION fail(state text) RETURNS void LANGUAGE plpgsql AS $$ \
        BEGIN IF (SELECT broken FROM switch) THEN RAISE EXCEPTION 'as told' USING ERRCODE = state; END IF; END $$";

#[derive(Clone, FromRef)]
struct App {
    idempotency: Idempotency<Db>,
    runs: Runs,
    other_pool: PgPool,
}

/// Its `source` leads to the `sqlx::Error`.
#[derive(Debug, thiserror::Error)]
enum Visible {
    #[error("the database failed")]
    Failed(#[from] sqlx::Error),
    #[error("busy")]
    Busy(#[source] sqlx::Error),
}

impl IntoResponse for Visible {
    fn into_response(self) -> Response {
        match self {
            Self::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
            Self::Busy(_) => (StatusCode::CONFLICT, "busy").into_response(),
        }
    }
}

/// axum's own example for `anyhow`: it is not an `Error` itself, so nothing leads to its cause.
struct Boxed(Box<dyn std::error::Error + Send + Sync>);

impl IntoResponse for Boxed {
    fn into_response(self) -> Response {
        (StatusCode::INTERNAL_SERVER_ERROR, self.0.to_string()).into_response()
    }
}

impl<E: Into<Box<dyn std::error::Error + Send + Sync>>> From<E> for Boxed {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

async fn run(runs: &Runs, tx: &mut PgConnection, sql: String) -> Result<StatusCode, sqlx::Error> {
    runs.begin();
    tx.execute(sqlx::raw_sql(AssertSqlSafe(sql))).await?;
    Ok(StatusCode::CREATED)
}

#[idempotent(scope = account)]
async fn visible(
    account: Account,
    State(runs): State<Runs>,
    tx: &mut PgConnection,
    sql: String,
) -> Result<StatusCode, Visible> {
    let _ = account;
    Ok(run(&runs, tx, sql).await?)
}

#[idempotent(scope = account)]
async fn busy(
    account: Account,
    State(runs): State<Runs>,
    tx: &mut PgConnection,
    sql: String,
) -> Result<StatusCode, Visible> {
    let _ = account;
    run(&runs, tx, sql).await.map_err(Visible::Busy)
}

#[idempotent(scope = account)]
async fn boxed(
    account: Account,
    State(runs): State<Runs>,
    tx: &mut PgConnection,
    sql: String,
) -> Result<StatusCode, Boxed> {
    let _ = account;
    Ok(run(&runs, tx, sql).await?)
}

#[idempotent(scope = account)]
async fn pair(
    account: Account,
    State(runs): State<Runs>,
    tx: &mut PgConnection,
    sql: String,
) -> Result<StatusCode, (StatusCode, String)> {
    let _ = account;
    run(&runs, tx, sql).await.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
}

#[idempotent(scope = account)]
async fn axum_result(
    account: Account,
    State(runs): State<Runs>,
    tx: &mut PgConnection,
    sql: String,
) -> axum::response::Result<StatusCode> {
    let _ = account;
    Ok(run(&runs, tx, sql).await.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?)
}

#[idempotent(scope = account)]
async fn unwrapping(account: Account, State(runs): State<Runs>, tx: &mut PgConnection, sql: String) -> StatusCode {
    let _ = account;
    run(&runs, tx, sql).await.unwrap()
}

/// Writes through its transaction, and reads through a second pool.
#[idempotent(scope = account, allow(pool))]
async fn second_pool(
    account: Account,
    State(runs): State<Runs>,
    State(other): State<PgPool>,
    tx: &mut PgConnection,
    sql: String,
) -> Result<StatusCode, Visible> {
    let _ = account;
    let created = run(&runs, tx, sql).await?;
    other.execute("SELECT 1").await?;
    Ok(created)
}

struct Service {
    runs: Runs,
    pool: PgPool,
    other_pool: PgPool,
    server: Server,
}

impl Service {
    async fn start(database: &Postgres, size: u32, options: impl FnOnce(Builder<Db>) -> Builder<Db>) -> Self {
        let pool = database.pool(size).await;
        pool.execute(sqlx::raw_sql(TABLES)).await.unwrap();
        let idempotency = options(Idempotency::builder(pool.clone())).build();
        idempotency.migrate().await.unwrap();
        let other = PgPoolOptions::new().max_connections(1).acquire_timeout(std::time::Duration::from_millis(50));
        let other_pool = other.connect_with(database.options()).await.unwrap();
        let app = App { idempotency, runs: Runs::default(), other_pool };
        let router = Router::new()
            .route("/visible", post(visible))
            .route("/busy", post(busy))
            .route("/boxed", post(boxed))
            .route("/pair", post(pair))
            .route("/axum_result", post(axum_result))
            .route("/unwrapping", post(unwrapping))
            .route("/second_pool", post(second_pool))
            .with_state(app.clone());
        Self { runs: app.runs, pool, other_pool: app.other_pool, server: Server::start(router).await }
    }

    async fn send(&self, path: &str, key: &str, sql: impl Into<String>) -> RawResponse {
        let headers = [("x-account", "ada"), ("idempotency-key", key), ("content-type", "text/plain")];
        http::post(self.server.address(), path, &headers, sql.into()).await
    }

    async fn switch(&self, broken: bool) {
        sqlx::query("UPDATE switch SET broken = $1").bind(broken).execute(&self.pool).await.unwrap();
    }
}

/// What a service may meet in a statement, and what heals without a change of the request.
const PASSING: [&str; 13] = [
    "53000", "53100", "53200", "53300", "53400", "55006", "55P03", "57014", "57P01", "58000", "58030", "25006", "25P03",
];

#[tokio::test]
async fn passing_faults_of_a_handlers_statement_are_not_stored() {
    let database = postgres().await;
    let service = Service::start(&database, 2, |builder| builder).await;
    for (done, state) in PASSING.into_iter().enumerate() {
        let sql = format!("INSERT INTO effects VALUES ('{state}'); SELECT fail('{state}')");
        service.switch(true).await;
        assert_problem(&service.send("/visible", state, &sql).await, 503, UNAVAILABLE);
        assert_problem(&service.send("/visible", state, &sql).await, 503, UNAVAILABLE);
        assert_eq!(
            (records(&database).await, count(&database, "effects").await),
            (done as i64, done as i64),
            "{state}"
        );
        service.switch(false).await;
        assert_ran(&service.send("/visible", state, &sql).await);
    }
    assert_eq!(service.runs.count(), 3 * PASSING.len());
}

#[tokio::test]
async fn other_faults_are_results_unless_the_database_aborted_the_transaction() {
    let database = postgres().await;
    let service = Service::start(&database, 2, |builder| builder).await;
    // A 4xx is the application's own response, whatever caused it.
    for state in ["23505", "55P03"] {
        let sql = format!("INSERT INTO effects VALUES ('{state}'); SELECT fail('{state}')");
        let refused = service.send("/busy", state, &sql).await;
        assert_eq!((refused.status, refused.text()), (409, "busy"));
        let again = service.send("/busy", state, &sql).await;
        assert_eq!((again.status, again.header("idempotent-replayed")), (409, Some("true")));
    }
    assert_eq!((service.runs.count(), records(&database).await, count(&database, "effects").await), (2, 2, 0));
}

#[tokio::test]
async fn timeouts_of_the_session_are_not_stored() {
    let database = postgres().await;
    let service = Service::start(&database, 2, |builder| builder).await;
    let mut holder = database.connect().await;
    holder.execute("BEGIN; LOCK TABLE switch").await.unwrap();
    let lock = "SET LOCAL lock_timeout = '20ms'; SELECT * FROM switch";
    assert_problem(&service.send("/visible", "lock", lock).await, 503, UNAVAILABLE);
    let statement = "SET LOCAL statement_timeout = '20ms'; SELECT * FROM switch";
    assert_problem(&service.send("/visible", "statement", statement).await, 503, UNAVAILABLE);
    assert_eq!(records(&database).await, 0);
    holder.execute("ROLLBACK").await.unwrap();
    assert_ran(&service.send("/visible", "lock", lock).await);
    assert_ran(&service.send("/visible", "statement", statement).await);
}

#[tokio::test]
async fn a_second_pool_without_a_free_connection_is_not_stored() {
    let database = postgres().await;
    let service = Service::start(&database, 2, |builder| builder).await;
    let held = service.other_pool.acquire().await.unwrap();
    assert_problem(&service.send("/second_pool", "k", "INSERT INTO effects VALUES ('k')").await, 503, UNAVAILABLE);
    assert_eq!((records(&database).await, count(&database, "effects").await), (0, 0));
    drop(held);
    assert_ran(&service.send("/second_pool", "k", "INSERT INTO effects VALUES ('k')").await);
}

/// After `ALTER TABLE` each session's prepared `SELECT *` is refused once (0A000): the body runs again on a fresh plan.
#[tokio::test]
async fn a_plan_made_stale_by_a_migration_is_made_anew() {
    #[idempotent(scope = account)]
    async fn read(account: Account, State(runs): State<Runs>, tx: &mut PgConnection) -> Result<StatusCode, Visible> {
        let _ = account;
        runs.begin();
        tx.execute(sqlx::query("SELECT * FROM effects")).await?;
        Ok(StatusCode::CREATED)
    }
    let database = postgres().await;
    let service = Service::start(&database, 6, |builder| builder).await;
    let idempotency = Idempotency::builder(service.pool.clone()).build();
    let app = App { idempotency, runs: service.runs.clone(), other_pool: service.other_pool.clone() };
    let server = Server::start(Router::new().route("/read", post(read)).with_state(app)).await;
    let send = async |key: &str| {
        http::post(server.address(), "/read", &[("x-account", "ada"), ("idempotency-key", key)], String::new()).await
    };
    // All connections have the plan.
    let mut connections = Vec::new();
    for _ in 0..6 {
        let mut connection = service.pool.acquire().await.unwrap();
        connection.execute(sqlx::query("SELECT * FROM effects")).await.unwrap();
        connections.push(connection);
    }
    drop(connections);
    assert_ran(&send("before").await);
    for column in ["one", "two"] {
        let alter = AssertSqlSafe(format!("ALTER TABLE effects ADD COLUMN {column} text"));
        database.connect().await.execute(alter).await.unwrap();
        for number in 0..12 {
            assert_ran(&send(&format!("{column}{number}")).await);
        }
    }
}
