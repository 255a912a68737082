//! PostgreSQL alone: handlers that change their role or `search_path`, and tables in a separate schema.
//! The record is written as the role and in the schema of the claim, whatever the handler leaves.

use axum::{Router, body::Bytes, extract::State, http::StatusCode, response::IntoResponse, routing::post};
use idem_runtime::{
    Attempt, Code, Idempotency, idempotent,
    messages::{ConsumeError, Once},
    recovery::{StalledAttempt, Verdict},
};
use sqlx::{AssertSqlSafe, Executor};

use super::{Connection, Db, LAPSE, fresh, topics::app::*};

/// Becomes the tenant as the body says, writes, and returns the status that the body ends with.
#[idempotent(scope = account)]
async fn become_tenant(tx: &mut Connection, State(app): State<App>, account: Account, body: String) -> StatusCode {
    app.runs.begin();
    let (status, sql) = body.split_once(' ').expect("a status and a statement");
    write(tx, &account).await;
    tx.execute(sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))).await.expect("a tenant");
    tx.execute("INSERT INTO notes VALUES ('as the tenant')").await.expect("a note");
    StatusCode::from_bytes(status.as_bytes()).expect("a status")
}

/// The same in the completing transaction of an external effect.
#[idempotent(scope = account, effects = external)]
async fn charge_as_tenant(
    attempt: &mut Attempt<Db>,
    State(app): State<App>,
    account: Account,
    sql: String,
) -> StatusCode {
    app.runs.begin();
    app.network.charge(attempt.key("charge"));
    let tx = attempt.transaction().await.expect("a transaction");
    write(tx, &account).await;
    tx.execute(sqlx::raw_sql(AssertSqlSafe(sql))).await.expect("a tenant");
    tx.execute("INSERT INTO notes VALUES ('as the tenant')").await.expect("a note");
    StatusCode::CREATED
}

#[idempotent(scope = account, effects = external)]
async fn charge(attempt: &mut Attempt<Db>, State(app): State<App>, account: Account, _: Bytes) -> StatusCode {
    app.runs.begin();
    app.network.charge(attempt.key("charge"));
    app.gate.pass().await;
    write(attempt.transaction().await.expect("a transaction"), &account).await;
    StatusCode::CREATED
}

fn routes() -> Router<App> {
    Router::new()
        .route("/tenant", post(become_tenant))
        .route("/charge-tenant", post(charge_as_tenant))
        .route("/charge", post(charge))
        .route("/pay", post(pay))
        .route("/hold", post(hold))
}

const ROLE: &str = "SET LOCAL ROLE pg_monitor";
const PATH: &str = "SET LOCAL search_path = tenant";
const BOTH: &str = "SET LOCAL ROLE pg_monitor; SET LOCAL search_path = tenant";

/// A schema with a table of notes, and a role of every server that may write nothing else.
const TENANT: &str = "\
    CREATE SCHEMA tenant; GRANT USAGE ON SCHEMA tenant TO pg_monitor; \
    CREATE TABLE tenant.notes (note TEXT); CREATE TABLE notes (note TEXT); \
    GRANT INSERT ON tenant.notes, notes TO pg_monitor";

async fn with_tenant() -> Service {
    let service = Service::start(routes()).await;
    service.pool.execute(sqlx::raw_sql(TENANT)).await.expect("a tenant");
    service
}

#[tokio::test]
async fn a_record_is_written_whatever_role_and_path_the_handler_leaves() {
    for session in [ROLE, PATH, BOTH] {
        let service = with_tenant().await;
        let body = format!("201 {session}");
        let first = service.post("/tenant", "k", &body).await;
        assert_eq!(first.status, 201, "{session}: {}", first.text());
        // The first request of a process finds out.
        assert_eq!(service.counts().await, (2, 1, 1), "{session}");
        assert_replay(&first, &service.post("/tenant", "k", &body).await);
        assert_eq!(service.post("/tenant", "k2", &body).await.status, 201);
        assert_eq!(service.counts().await, (3, 2, 2), "{session}: the second request runs once");
        let declined = format!("402 {session}");
        assert_eq!(service.post("/tenant", "k3", &declined).await.status, 402);
        assert_eq!(service.counts().await, (4, 2, 3), "{session}: dropped, with a record");
        // The session is as it was for whoever gets the connection next.
        assert_eq!(service.post("/pay", "k4", "").await.status, 201);
    }
}

#[tokio::test]
async fn an_external_effect_is_completed_whatever_role_and_path_the_handler_leaves() {
    for session in [ROLE, PATH, BOTH] {
        let service = with_tenant().await;
        let first = service.post("/charge-tenant", "k", session).await;
        assert_eq!(first.status, 201, "{session}: {}", first.text());
        assert_replay(&first, &service.post("/charge-tenant", "k", session).await);
        assert_eq!((service.counts().await, service.app.network.calls().len()), ((1, 1, 1), 1), "{session}");
    }
}

#[tokio::test]
async fn a_message_is_recorded_at_its_second_delivery_at_the_latest() {
    for session in [ROLE, PATH, BOTH] {
        let service = with_tenant().await;
        let deliver = async |id: &str| {
            let effect = sqlx::raw_sql(AssertSqlSafe(session));
            service
                .app
                .idempotency
                .once("queue", id, |tx| Box::pin(async move { (&mut **tx).execute(effect).await.map(drop) }))
                .await
        };
        let first: Result<Once<()>, ConsumeError<sqlx::Error>> = deliver("m").await;
        assert!(matches!(first, Err(ConsumeError::Store { code: Code::TableHidden, .. })), "{session}: {first:?}");
        assert!(matches!(deliver("m").await, Ok(Once::Ran(()))), "{session}");
        assert!(matches!(deliver("m").await, Ok(Once::AlreadyDone(()))), "{session}");
        assert!(matches!(deliver("n").await, Ok(Once::Ran(()))), "{session}");
    }
}

/// The tables are in `app_idem`, and nothing named like them is in any other schema: a statement without it would fail.
#[tokio::test]
async fn every_statement_names_the_schema() {
    let database = fresh().await;
    let pool = database.pool(5).await;
    let in_schema = |builder: idem_runtime::Builder<Db>| builder.schema("app_idem");
    let service = Service::on(database, pool, routes(), in_schema, || ().into_response()).await;
    let idempotency = &service.app.idempotency;
    idempotency.migrate().await.expect("a second migration");
    idempotency.check().await.expect("a schema as it must be");
    let elsewhere =
        "SELECT count(*) FROM pg_class WHERE relname LIKE 'idem_%' AND relnamespace <> 'app_idem'::regnamespace";
    assert_eq!(sqlx::query_scalar::<_, i64>(elsewhere).fetch_one(&service.pool).await.expect("a count"), 0);
    let records = async || {
        let count = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM app_idem.idem_records");
        count.fetch_one(&service.pool).await.expect("a count")
    };

    let other = service.beside_with(routes(), in_schema).await;
    let first = service.post("/pay", "k", "1").await;
    assert_replay(&first, &other.post("/pay", "k", "1").await);
    assert_problem(&other.post("/pay", "k", "2").await, 422, "idempotency-key-reuse");
    let held = service.posting("/hold", "held", "1");
    service.app.gate.entered().await;
    assert_problem(&other.post("/hold", "held", "1").await, 409, "in-progress");
    service.app.gate.open();
    assert_eq!(held.await.expect("a response").status, 201);
    assert!(matches!(
        idempotency.once("queue", "m", |_| Box::pin(async { Ok::<_, sqlx::Error>(()) })).await,
        Ok(Once::Ran(()))
    ));
    assert_eq!((service.app.runs.count(), records().await), (2, 3));

    // The gate stays open, and `charge` completes.
    let charged = service.post("/charge", "c", "1").await;
    assert_replay(&charged, &other.post("/charge", "c", "1").await);
    assert_eq!(records().await, 4);
    assert_eq!(idempotency.stalled().await.expect("a list").len(), 0);
    let lapse = LAPSE.replace("idem_records", "app_idem.idem_records");
    let dead = "INSERT INTO app_idem.idem_records (id, attempt, operation, fingerprint, lease_until, retention, format, status, \
                    headers, body, created_at, expires_at) \
                SELECT sha256('dead'), substr(sha256('attempt'), 1, 16), 'charge', fingerprint, now(), 60, 0, 0, '', '', now(), 'infinity' \
                  FROM app_idem.idem_records LIMIT 1";
    sqlx::query(dead).execute(&service.pool).await.expect("a stalled attempt");
    sqlx::query(AssertSqlSafe(lapse)).execute(&service.pool).await.expect("a lease that has ended");
    assert_eq!(idempotency.stalled().await.expect("a list").len(), 1);
    let recovery = idempotency.recovery().reconciler("charge", Released);
    assert_eq!(recovery.sweep().await.expect("a sweep").released, 1);
    assert_eq!(records().await, 4);

    let old = "UPDATE app_idem.idem_records SET expires_at = now()";
    sqlx::query(old).execute(&service.pool).await.expect("old records");
    assert_eq!((idempotency.prune().await.expect("pruned"), records().await), (4, 0));
    let without = Idempotency::<Db>::builder(service.pool.clone()).build();
    assert!(without.check().await.is_err(), "the default schema has no tables");
}

struct Released;

impl idem_runtime::recovery::Reconciler<Db> for Released {
    async fn reconcile(
        &self,
        _: &StalledAttempt,
        _: &mut Attempt<Db>,
    ) -> Result<Verdict, idem_runtime::recovery::BoxError> {
        Ok(Verdict::NeverExecuted)
    }
}

#[tokio::test]
async fn with_a_schema_the_path_of_the_handler_costs_no_second_run() {
    let database = fresh().await;
    let pool = database.pool(5).await;
    let in_schema = |builder: idem_runtime::Builder<Db>| builder.schema("app_idem");
    let service = Service::on(database, pool, routes(), in_schema, || ().into_response()).await;
    service.pool.execute(sqlx::raw_sql(TENANT)).await.expect("a tenant");
    let first = service.post("/tenant", "k", &format!("201 {PATH}")).await;
    assert_eq!((first.status, service.app.runs.count()), (201, 1), "{}", first.text());
}

#[tokio::test]
async fn the_migrations_run_manually_in_a_schema_too() {
    let database = fresh().await;
    let pool = database.pool(1).await;
    pool.execute("CREATE SCHEMA app_idem").await.expect("a schema");
    for migration in super::MIGRATIONS {
        let sql = AssertSqlSafe(migration.in_schema("app_idem"));
        pool.execute(sqlx::raw_sql(sql)).await.expect("a migration");
    }
    Idempotency::<Db>::builder(pool).schema("app_idem").build().check().await.expect("a schema as it must be");
}
