//! The table: how it comes to be, what `check` says of it, and rows of other versions.
//! The golden rows are what version 0.1 wrote, byte for byte; they must be read for as long as records can be that old.

use std::time::Duration;

use axum::{Router, body::Bytes, extract::State, http::StatusCode, routing::post};
use futures_util::future::join_all;
use idem_runtime::{Error, Idempotency, idempotent, migrations::Migration};
use idem_tests::soon;
use sqlx::migrate::Migrator;

use super::{Connection, GOLDEN, MIGRATIONS, NO_NUMBER, PAYMENTS, RETYPE, app::*, fresh};

#[idempotent(scope = (account, endpoint))]
async fn here(tx: &mut Connection, State(app): State<App>, account: Account) -> StatusCode {
    app.runs.begin();
    write(tx, &account).await;
    StatusCode::CREATED
}

#[idempotent(scope = account, operation = "pay", fingerprint = json)]
async fn pay_by_json(tx: &mut Connection, State(app): State<App>, account: Account, _: Bytes) -> StatusCode {
    app.runs.begin();
    write(tx, &account).await;
    StatusCode::CREATED
}

fn routes() -> Router<App> {
    Router::new().route("/pay", post(pay)).route("/here", post(here))
}

#[tokio::test]
async fn migrate_may_be_called_again_and_by_many_at_once() {
    let database = fresh().await;
    let pool = database.pool(5).await;
    let idempotency = Idempotency::builder(pool.clone()).build();
    for _ in 0..2 {
        for migrated in join_all((0..5).map(|_| idempotency.migrate())).await {
            migrated.unwrap();
        }
        idempotency.check().await.unwrap();
    }
}

#[tokio::test]
async fn one_migrator_runs_the_applications_migrations_and_ours() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("20250101000000_payments.sql"), PAYMENTS).unwrap();
    let own = Migrator::new(folder.path()).await.unwrap();
    let ours = MIGRATIONS.iter().map(Migration::for_sqlx);
    let migrator = Migrator::with_migrations(own.migrations.iter().cloned().chain(ours).collect());
    let database = fresh().await;
    let pool = database.pool(2).await;
    let idempotency = Idempotency::builder(pool.clone()).build();
    for _ in 0..2 {
        migrator.run(&pool).await.unwrap();
        idempotency.check().await.unwrap();
    }
}

#[tokio::test]
async fn migrate_keeps_the_records() {
    let service = Service::start(routes()).await;
    let first = service.post("/pay", "k", "1").await;
    service.app.idempotency.migrate().await.unwrap();
    assert_replay(&first, &service.post("/pay", "k", "1").await);
    assert_eq!(service.counts().await, (1, 1, 1));
}

#[tokio::test]
async fn migrate_lives_beside_the_applications_own_sqlx_migrations() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("1_payments.sql"), PAYMENTS).unwrap();
    for ours_first in [true, false] {
        let database = fresh().await;
        let pool = database.pool(2).await;
        let idempotency = Idempotency::builder(pool.clone()).build();
        let later = folder.path().join("2_later.sql");
        let _ = std::fs::remove_file(&later);
        if ours_first {
            idempotency.migrate().await.unwrap();
        }
        Migrator::new(folder.path()).await.unwrap().run(&pool).await.unwrap();
        idempotency.migrate().await.unwrap();
        std::fs::write(&later, "CREATE TABLE later (id INTEGER)").unwrap();
        Migrator::new(folder.path()).await.unwrap().run(&pool).await.unwrap();
        idempotency.migrate().await.unwrap();
        idempotency.check().await.unwrap();
        let versions: Vec<i64> =
            sqlx::query_scalar("SELECT version FROM _sqlx_migrations ORDER BY version").fetch_all(&pool).await.unwrap();
        assert_eq!(versions, [1, 2], "the application's alone");
    }
}

#[tokio::test]
async fn check_tells_what_is_wrong_with_the_table() {
    let database = fresh().await;
    let idempotency = Idempotency::builder(database.pool(2).await).build();
    assert!(matches!(idempotency.check().await, Err(Error::SchemaMissing)));
    drop(database);

    let service = Service::start(routes()).await;
    service.app.idempotency.check().await.unwrap();
    service.execute("UPDATE idem_schema SET version = 7 WHERE version = 2").await;
    let other = service.app.idempotency.check().await;
    assert!(matches!(other, Err(Error::SchemaVersion { found: 7, expected: 2 })), "{other:?}");
    service.execute("UPDATE idem_schema SET version = 2 WHERE version = 7").await;
    service.app.idempotency.check().await.unwrap();

    sqlx::raw_sql(RETYPE).execute(&service.pool).await.unwrap();
    let retyped = service.app.idempotency.check().await;
    assert!(matches!(retyped, Err(Error::SchemaMissing)), "{retyped:?}");
    service.execute("DROP TABLE idem_records").await;
    assert!(matches!(service.app.idempotency.check().await, Err(Error::SchemaMissing)));
    service.execute("DELETE FROM idem_schema").await;
    assert!(matches!(service.app.idempotency.check().await, Err(Error::SchemaMissing)));
    service.pool.close().await;
    assert!(matches!(service.app.idempotency.check().await, Err(Error::Database(_))));
}

#[tokio::test]
async fn an_unreadable_record_is_500_and_never_run_again() {
    let rule_9: &[u8] = &[[9].as_slice(), &[0; 32]].concat();
    for (column, value) in [
        ("format", None),
        ("status", None),
        ("headers", Some(b"\0\0\0\x01".as_slice())),
        ("headers", Some(b"\0\0\0\x01 \0\0\0\0")),
        ("fingerprint", Some(rule_9)),
        ("fingerprint", Some(b"")),
    ] {
        let service = Service::start(routes()).await;
        service.post("/pay", "k", "1").await;
        let sql = format!("UPDATE idem_records SET {column} = $1");
        let update = sqlx::query(sqlx::AssertSqlSafe(sql));
        let update = match value {
            Some(bytes) => update.bind(bytes.to_vec()),
            None => update.bind(99_i16),
        };
        update.execute(&service.pool).await.unwrap();
        for _ in 0..2 {
            let answer = service.post("/pay", "k", "1").await;
            assert_eq!(answer.status, 500, "{column} {value:?}");
            assert_problem(&answer, 500, "idempotency-record-unreadable");
        }
        assert_eq!(service.counts().await, (1, 1, 1));
    }
}

#[tokio::test]
async fn a_record_whose_status_is_no_number_is_500_and_never_run_again() {
    let service = Service::start(routes()).await;
    service.post("/pay", "k", "1").await;
    service.execute(NO_NUMBER).await;
    // Over new connections, whose statements are prepared for the columns as they are now.
    let restarted = service.beside(routes()).await;
    assert_problem(&restarted.post("/pay", "k", "1").await, 500, "idempotency-record-unreadable");
    assert_eq!(service.counts().await, (1, 1, 1));
}

#[tokio::test]
async fn b20_golden_rows_replay() {
    let service = Service::start(routes()).await;
    sqlx::raw_sql(GOLDEN).execute(&service.pool).await.unwrap();
    let replayed = service.post("/pay?golden=1", "golden", r#"{"amount":1999}"#).await;
    assert_eq!((replayed.status, replayed.header("idempotent-replayed")), (201, Some("true")));
    assert_eq!(replayed.body, b"stored\0\xff");
    assert_eq!(replayed.header("location"), Some("/payments/1"));
    assert_eq!(replayed.all("set-cookie"), [b"a=1", b"b=2"]);
    assert_eq!(replayed.all("x-odd"), [b"caf\xe9"]);
    assert_problem(&service.post("/pay?golden=1", "golden", "{}").await, 422, "idempotency-key-reuse");
    // Stored under the rule `json`, so compared by it, though the handler's is another now.
    let replayed = service.post("/pay", "golden-json", r#"{ "b":2, "a":1 }"#).await;
    assert_eq!((replayed.status, replayed.text(), replayed.header("idempotent-replayed")), (402, "", Some("true")));
    assert_problem(&service.post("/pay", "golden-json", "{}").await, 422, "idempotency-key-reuse");
    // Of a scope with the endpoint.
    let replayed = service.post("/here", "golden", "").await;
    assert_eq!((replayed.status, replayed.header("idempotent-replayed")), (204, Some("true")));
    // With a checksum.
    let replayed = service.post("/pay", "golden-3", "3").await;
    assert_eq!((replayed.status, replayed.header("idempotent-replayed")), (201, Some("true")));
    assert_eq!((&*replayed.body, replayed.header("location")), (&b"sealed\0\xff"[..], Some("/payments/3")));
    assert_eq!(service.counts().await, (0, 0, 4));
}

#[tokio::test]
async fn b20_the_same_rows_are_written_today() {
    type Row = (Vec<u8>, String, Vec<u8>);
    let rows = async |service: &Service| -> Vec<Row> {
        let all = "SELECT id, operation, fingerprint FROM idem_records ORDER BY id";
        sqlx::query_as(all).fetch_all(&service.pool).await.unwrap()
    };
    let of_rule = |rows: &[Row], rule: u8| rows.iter().filter(|row| row.2[0] == rule).cloned().collect::<Vec<_>>();
    let identified = |rows: &[Row]| rows.iter().map(|row| (row.0.clone(), row.1.clone())).collect::<Vec<_>>();
    let json = Router::new().route("/pay", post(pay_by_json));
    let service = Service::start(routes()).await;
    let by_json = service.beside(json).await;
    sqlx::raw_sql(GOLDEN).execute(&service.pool).await.unwrap();
    let golden = rows(&service).await;
    assert_eq!(golden.len(), 4);
    service.execute("DELETE FROM idem_records").await;
    service.post("/pay?golden=1", "golden", r#"{"amount":1999}"#).await;
    by_json.post("/pay", "golden-json", r#"{"b":2,"a":1}"#).await;
    service.post("/here", "golden", "").await;
    service.post("/pay", "golden-3", "3").await;
    let written = rows(&service).await;
    assert_eq!(identified(&written), identified(&golden));
    assert_eq!(of_rule(&written, 5).iter().filter(|row| golden.contains(row)).count(), 1);
    assert!(of_rule(&written, 1).is_empty() && of_rule(&written, 2).is_empty(), "read and no longer made");
    let formats: Vec<i16> =
        sqlx::query_scalar("SELECT DISTINCT format FROM idem_records").fetch_all(&service.pool).await.unwrap();
    assert_eq!(formats, [3], "the first format is read and no longer written");
}

#[tokio::test]
async fn b20_two_versions_side_by_side_each_keep_to_a_records_own_rule() {
    let old = Service::start(routes()).await;
    let new = old.beside(Router::new().route("/pay", post(pay_by_json))).await;
    let (body, reordered) = (r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#);
    let by_bytes = old.post("/pay", "old", body).await;
    assert_replay(&by_bytes, &new.post("/pay", "old", body).await);
    assert_problem(&new.post("/pay", "old", reordered).await, 422, "idempotency-key-reuse");
    let by_json = new.post("/pay", "new", body).await;
    assert_replay(&by_json, &old.post("/pay", "new", body).await);
    assert_replay(&by_json, &old.post("/pay", "new", reordered).await);
    assert_problem(&old.post("/pay", "new", "{}").await, 422, "idempotency-key-reuse");
    assert_eq!(old.counts().await, (2, 2, 2));
}

#[tokio::test]
async fn an_upgrade_waits_for_a_slow_handler_and_lets_the_others_run_meanwhile() {
    // SQLite's one writer is waited for by everybody anyway.
    if !super::ABORTS {
        return;
    }
    let service = Service::start(routes()).await;
    for column in ["attempt", "lease_until", "retention", "asked", "last_error", "request"] {
        let sql = format!("ALTER TABLE idem_records DROP COLUMN {column}");
        sqlx::query(sqlx::AssertSqlSafe(sql)).execute(&service.pool).await.unwrap();
    }
    service.execute("DELETE FROM idem_schema WHERE version = 2").await;
    // As a handler of version 1 whose body takes its time.
    let mut slow = service.pool.begin().await.unwrap();
    sqlx::query("SELECT count(*) FROM idem_records").execute(&mut *slow).await.unwrap();
    let idempotency = service.app.idempotency.clone();
    let migrating = tokio::spawn(async move { idempotency.migrate().await });
    for _ in 0..4 {
        let another = sqlx::query("SELECT count(*) FROM idem_records").execute(&service.pool);
        tokio::time::timeout(Duration::from_secs(5), another).await.expect("not behind the migration").unwrap();
        tokio::time::sleep(Duration::from_millis(400)).await;
    }
    assert!(!migrating.is_finished());
    slow.commit().await.unwrap();
    soon("the migration", migrating).await.unwrap().unwrap();
    assert_eq!(service.post("/pay", "k", "1").await.status, 201);
}
