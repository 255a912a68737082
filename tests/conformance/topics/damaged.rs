//! Damaged records: one response, 500 with its code, and never a run. The event names the record.
//! What a checksum detects is changed byte by byte; what it cannot is written in the format that had none.

use axum::{Router, routing::post};
use idem_runtime::{
    Code, Idempotency,
    messages::{ConsumeError, Once},
};
use idem_tests::log_capture::{heard, listen};
use sqlx::{AssertSqlSafe, Executor};

use super::{Db, NULLABLE, app::*};

const UNREADABLE: &str = "idempotency-record-unreadable";

fn routes() -> Router<App> {
    Router::new().route("/pay", post(pay)).route("/refund", post(refund))
}

async fn set(service: &Service, column: &str, value: &[u8]) {
    let update = sqlx::query(AssertSqlSafe(format!("UPDATE idem_records SET {column} = $1"))).bind(value.to_vec());
    update.execute(&service.pool).await.unwrap();
}

async fn get(service: &Service, column: &str) -> Vec<u8> {
    let select = AssertSqlSafe(format!("SELECT {column} FROM idem_records"));
    sqlx::query_scalar(select).fetch_one(&service.pool).await.unwrap()
}

#[tokio::test]
async fn every_changed_byte_of_a_stored_response_is_500_and_never_a_run() {
    let service = Service::start(routes()).await;
    let first = service.post("/pay", "k", "1").await;
    let mut positions = 0;
    for column in ["body", "headers"] {
        let whole = get(&service, column).await;
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << (at % 8);
            set(&service, column, &damaged).await;
            assert_problem(&service.post("/pay", "k", "1").await, 500, UNREADABLE);
            positions += 1;
        }
        for other in [&whole[1..], &[&*whole, b"0"].concat(), b""] {
            set(&service, column, other).await;
            assert_problem(&service.post("/pay", "k", "1").await, 500, UNREADABLE);
        }
        set(&service, column, &whole).await;
        assert_replay(&first, &service.post("/pay", "k", "1").await);
    }
    assert!(positions > 15 + 8, "{positions}");
    assert_eq!(service.counts().await, (1, 1, 1));
}

#[tokio::test]
async fn a_record_under_another_key_is_500_and_its_event_names_it() {
    let service = Service::start(routes()).await;
    service.post("/pay", "one", "1").await;
    let one = get(&service, "id").await;
    service.execute("DELETE FROM idem_records").await;
    service.post("/pay", "two", "1").await;
    set(&service, "id", &one).await;
    listen();
    assert_problem(&service.post("/pay", "one", "1").await, 500, UNREADABLE);
    let id = one.iter().fold(String::new(), |id, byte| id + &format!("{byte:02x}"));
    let log = heard();
    let event = log.lines().find(|line| line.contains("a stored record cannot be read")).expect("an event");
    assert!(event.contains("ERROR") && event.contains(&format!("record={id}")), "{event}");
    assert_eq!(service.counts().await, (2, 2, 1));
    // As the guide says.
    sqlx::query("DELETE FROM idem_records WHERE id = $1").bind(one).execute(&service.pool).await.unwrap();
    assert_eq!(service.post("/pay", "one", "1").await.status, 201);
}

/// One header, as it is stored.
fn line(name: &str, value: &str) -> Vec<u8> {
    let field = |text: &str| [&u32::try_from(text.len()).unwrap().to_be_bytes(), text.as_bytes()].concat();
    [field(name), field(value)].concat()
}

#[tokio::test]
async fn what_no_stored_response_has_is_500_also_where_there_is_no_checksum() {
    let service = Service::start(routes()).await;
    service.post("/pay", "k", "1").await;
    service.execute("UPDATE idem_records SET format = 1").await;
    set(&service, "headers", &line("etag", "1")).await;
    assert_eq!(service.post("/pay", "k", "1").await.all("idempotent-replayed"), [b"true"]);
    let many: Vec<u8> = (0..30_000).flat_map(|at| line(&format!("x-{at}"), "")).collect();
    for headers in
        [line("content-length", "1"), line("transfer-encoding", "chunked"), line("connection", "close"), many]
    {
        set(&service, "headers", &headers).await;
        assert_problem(&service.post("/pay", "k", "1").await, 500, UNREADABLE);
    }
    set(&service, "headers", b"").await;
    for status in ["-1", "0", "99", "100", "101", "103", "199", "1000", "32767"] {
        let sql = format!("UPDATE idem_records SET status = {status}");
        service.pool.execute(AssertSqlSafe(sql)).await.unwrap();
        assert_problem(&service.post("/pay", "k", "1").await, 500, UNREADABLE);
    }
    assert_eq!(service.counts().await, (1, 1, 1));
}

#[tokio::test]
async fn a_fingerprint_of_another_length_is_500_and_no_mismatch() {
    let service = Service::start(routes()).await;
    service.post("/pay", "k", "1").await;
    let whole = get(&service, "fingerprint").await;
    for other in [&whole[..1], &whole[..32], &[&*whole, b"0"].concat(), b""] {
        set(&service, "fingerprint", other).await;
        for body in ["1", "2"] {
            assert_problem(&service.post("/pay", "k", body).await, 500, UNREADABLE);
        }
    }
    assert_eq!(service.counts().await, (1, 1, 1));
}

#[tokio::test]
async fn a_null_is_500_and_never_a_run() {
    for column in ["operation", "fingerprint", "format", "status", "headers", "body", "expires_at"] {
        let service = Service::start(routes()).await;
        service.post("/pay", "k", "1").await;
        sqlx::raw_sql(NULLABLE).execute(&service.pool).await.unwrap();
        let sql = format!("UPDATE idem_records SET {column} = NULL");
        service.pool.execute(AssertSqlSafe(sql)).await.unwrap();
        listen();
        let response = service.post("/pay", "k", "1").await;
        assert_eq!(response.status, 500, "{column}");
        assert_problem(&response, 500, UNREADABLE);
        assert!(heard().contains("record="), "{column}: {}", heard());
        assert_eq!(service.counts().await, (1, 1, 1), "{column}");
    }
}

#[tokio::test]
async fn a_damaged_value_of_a_consumer_is_an_error_and_never_a_run() {
    let service = Service::start(routes()).await;
    let idempotency: &Idempotency<Db> = &service.app.idempotency;
    let deliver = async || {
        let runs = service.app.runs.clone();
        let effect = idempotency.once("orders", "m", |_tx| {
            Box::pin(async move {
                runs.begin();
                Ok::<_, sqlx::Error>(vec![7, 8])
            })
        });
        effect.await
    };
    assert_eq!(deliver().await.unwrap(), Once::Ran(vec![7, 8]));
    assert_eq!(deliver().await.unwrap(), Once::AlreadyDone(vec![7, 8]));
    for (column, damaged) in [("body", b"[7,9]".as_slice()), ("headers", &[]), ("fingerprint", &[4; 32])] {
        let whole = get(&service, column).await;
        set(&service, column, damaged).await;
        let told = deliver().await;
        assert!(matches!(told, Err(ConsumeError::Store { code: Code::RecordUnreadable, .. })), "{column}: {told:?}");
        set(&service, column, &whole).await;
    }
    // As it was written before there was a checksum.
    service.execute("UPDATE idem_records SET format = 2").await;
    set(&service, "headers", b"").await;
    assert_eq!(deliver().await.unwrap(), Once::AlreadyDone(vec![7, 8]));
    assert_eq!(service.app.runs.count(), 1);
}
