//! The database refuses what the handler did: a statement failed and was ignored, a constraint fails, a record is there.
//! The response and the stored record agree. A conflict on the handler's own rows is never taken for one on the key.

use idem_runtime::options::Isolation;
use idem_tests::{
    assertions::{a_session, assert_problem, assert_ran, assert_replayed, code, count, records, rows},
    databases::postgres,
    http::{self, RawResponse},
    service::{Service, order},
};
use sqlx::{Connection, Executor, PgConnection};

#[tokio::test]
async fn b43_a_failed_statement_that_was_ignored_is_no_success() {
    let database = postgres().await;
    let service = Service::start(&database).await;
    for (runs, act) in ["swallow_first", "swallow_last", "swallow_in_helper"].into_iter().enumerate() {
        let key = format!("k-{act}");
        assert_problem(&service.send(&key, act).await, 500, "idempotency-transaction-aborted");
        assert_eq!((rows(&database, &key).await, records(&database).await), (0, 0), "{act}");
        // The key is free: the retry runs, and fails alike.
        assert_problem(&service.send(&key, act).await, 500, "idempotency-transaction-aborted");
        assert_eq!(service.runs(), 2 * (runs + 1), "{act}");
    }
    assert_ran(&service.send("k-swallow_last", "write").await);
}

#[tokio::test]
async fn b43_a_constraint_that_fails_at_commit_is_no_success() {
    let database = postgres().await;
    let service = Service::start(&database).await;
    assert_ran(&service.send("other", "write").await);
    // Sets one value in two rows, which is found out at COMMIT.
    assert_problem(&service.send("k", "late").await, 500, "idempotency-transaction-aborted");
    assert_eq!((rows(&database, "k").await, records(&database).await, service.runs()), (0, 1, 2));

    database.connect().await.execute("DELETE FROM effects").await.unwrap();
    assert_ran(&service.send("k", "late").await);
    assert_replayed(&service.send("k", "late").await);
    assert_eq!((rows(&database, "k").await, service.runs()), (1, 3));
}

#[tokio::test]
async fn b43_a_trigger_that_objects_at_commit_is_no_success() {
    let database = postgres().await;
    let service = Service::start(&database).await;
    let objection = "CREATE FUNCTION object() RETURNS trigger LANGUAGE plpgsql AS $$ \
                         BEGIN RAISE EXCEPTION 'the ledger does not balance'; END $$; \
                     CREATE CONSTRAINT TRIGGER balance AFTER UPDATE ON effects \
                         DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION object()";
    database.connect().await.execute(sqlx::raw_sql(objection)).await.unwrap();
    assert_problem(&service.send("k", "late").await, 500, "idempotency-transaction-aborted");
    assert_eq!((rows(&database, "k").await, records(&database).await, service.runs()), (0, 0, 1));

    database.connect().await.execute("DROP TRIGGER balance ON effects").await.unwrap();
    assert_ran(&service.send("k", "late").await);
    assert_eq!((rows(&database, "k").await, service.runs()), (1, 2));
}

#[tokio::test]
async fn b56_a_transaction_that_only_looks_like_the_claims_stores_nothing() {
    let database = postgres().await;
    let service = Service::start_with(&database, database.pool(1).await, |builder| builder).await;
    let session = || sqlx::query_scalar::<_, i32>("SELECT pg_backend_pid()").fetch_one(&service.pool);
    let before = session().await.unwrap();
    assert_problem(&service.send("k", "restart").await, 500, "idempotency-transaction-ended");
    // The handler's own COMMIT cannot be taken back; no response is stored for it.
    assert_eq!((rows(&database, "k").await, records(&database).await), (1, 0));
    assert_ne!(session().await.unwrap(), before, "the connection was used again");
    assert_ran(&service.send("other", "write").await);
}

#[tokio::test]
async fn b56_another_table_of_the_same_name_gets_no_record() {
    let database = postgres().await;
    let service = Service::start(&database).await;
    let tenant = "CREATE SCHEMA tenant; CREATE TABLE tenant.idem_records (LIKE idem_records INCLUDING ALL)";
    database.connect().await.execute(sqlx::raw_sql(tenant)).await.unwrap();
    // The first request finds out that the session is to be restored, which takes a second run. It does not help here.
    for runs in [2, 3] {
        assert_problem(&service.send("k", "temporary_table").await, 500, "idempotency-table-hidden");
        assert_eq!((rows(&database, "k").await, records(&database).await, service.runs()), (0, 0, runs));
    }
    assert_ran(&service.send("path", "other_schema").await);
    assert_replayed(&service.send("path", "other_schema").await);
    assert_eq!((rows(&database, "path").await, records(&database).await, service.runs()), (1, 1, 4));
    assert_eq!(count(&database, "tenant.idem_records").await, 0);
    assert_ran(&service.send("other", "write").await);
}

#[tokio::test]
async fn b40_a_unique_violation_of_the_handlers_own_is_its_own_business() {
    let database = postgres().await;
    let service = Service::start(&database).await;
    assert_ran(&service.send("one", "once").await);

    let refused = service.send("two", "once").await;
    assert_eq!((refused.status, refused.json()["failed"].as_str()), (409, Some("taken")));
    assert_eq!((code(&refused), rows(&database, "two").await), (None, 0));

    let again = service.send("two", "once").await;
    assert_eq!((again.status, again.header("idempotent-replayed")), (409, Some("true")));
    assert_eq!((again.body, service.runs(), records(&database).await), (refused.body, 2, 2));
}

/// A record as another process would write it: made by the same request on a database beside.
struct Foreign {
    row: Vec<u8>,
    response: RawResponse,
}

impl Foreign {
    async fn made_by(key: &str, body: &str) -> Self {
        let beside = postgres().await;
        let service = Service::start(&beside).await;
        service.probe.gate.open();
        let headers = [("x-account", "ada"), ("idempotency-key", key)];
        let response = http::post(service.address(), "/act", &headers, body).await;
        assert_ran(&response);
        let mut row = Vec::new();
        let mut connection = beside.connect().await;
        let mut copy = connection.copy_out_raw("COPY idem_records TO STDOUT (FORMAT binary)").await.unwrap();
        while let Some(chunk) = futures_util::StreamExt::next(&mut copy).await {
            row.extend_from_slice(&chunk.unwrap());
        }
        Self { row, response }
    }

    async fn appears_in(&self, connection: &mut PgConnection) {
        let mut copy = connection.copy_in_raw("COPY idem_records FROM STDIN (FORMAT binary)").await.unwrap();
        copy.send(self.row.as_slice()).await.unwrap();
        assert_eq!(copy.finish().await.unwrap(), 1);
    }
}

#[tokio::test]
async fn b40_a_record_that_appears_during_the_handler_wins() {
    let foreign = Foreign::made_by("k", &order("k", "wait")).await;
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable] {
        let database = postgres().await;
        let service =
            Service::start_with(&database, database.pool(2).await, |builder| builder.isolation(isolation)).await;
        let first = service.begin("k", "wait");
        service.probe.gate.entered().await;
        let mut outside = database.connect().await;
        match isolation {
            Isolation::ReadCommitted => foreign.appears_in(&mut outside).await,
            // A strict level has written where the record would stand, so nobody else can.
            _ => {
                outside.execute("SET lock_timeout = '20ms'").await.unwrap();
                let mut copy = outside.copy_in_raw("COPY idem_records FROM STDIN (FORMAT binary)").await.unwrap();
                copy.send(foreign.row.as_slice()).await.unwrap();
                copy.finish().await.unwrap_err();
                service.probe.gate.open();
                assert_ran(&first.await.unwrap());
                assert_eq!((rows(&database, "k").await, service.runs()), (1, 1), "{isolation:?}");
                continue;
            }
        }
        service.probe.gate.open();
        let answered = first.await.unwrap();
        assert_replayed(&answered);
        assert_eq!(answered.body, foreign.response.body);
        assert_eq!((rows(&database, "k").await, records(&database).await, service.runs()), (0, 1, 1));
    }
}

#[tokio::test]
async fn b40_a_record_of_another_request_that_appears_during_the_handler_wins() {
    let foreign = Foreign::made_by("k", &order("other", "wait")).await;
    let database = postgres().await;
    let service = Service::start(&database).await;
    let first = service.begin("k", "wait");
    service.probe.gate.entered().await;
    foreign.appears_in(&mut database.connect().await).await;
    service.probe.gate.open();
    assert_problem(&first.await.unwrap(), 422, "idempotency-key-reuse");
    assert_eq!((rows(&database, "k").await, records(&database).await, service.runs()), (0, 1, 1));
}

#[tokio::test]
async fn b40_a_record_of_an_unfinished_transaction_is_waited_for() {
    for committed in [true, false] {
        let foreign = Foreign::made_by("k", &order("k", "wait")).await;
        let database = postgres().await;
        let service = Service::start(&database).await;
        let first = service.begin("k", "wait");
        service.probe.gate.entered().await;
        let mut outside = database.connect().await;
        let mut transaction = outside.begin().await.unwrap();
        foreign.appears_in(&mut transaction).await;
        service.probe.gate.open();
        a_session(&database, "wait_event_type = 'Lock'").await;
        assert!(!first.is_finished());
        if committed {
            transaction.commit().await.unwrap();
            assert_replayed(&first.await.unwrap());
        } else {
            transaction.rollback().await.unwrap();
            assert_ran(&first.await.unwrap());
        }
        let expected = if committed { 0 } else { 1 };
        assert_eq!((rows(&database, "k").await, records(&database).await, service.runs()), (expected, 1, 1));
    }
}

#[tokio::test]
async fn b54_keys_and_scopes_are_told_apart_as_bytes() {
    let database = postgres().await;
    let service = Service::start(&database).await;
    for key in ["abc", "ABC", "aBc", "\"abc \"", "\" abc\"", "abc."] {
        let headers = [("x-account", "ada"), ("idempotency-key", key)];
        let response = http::post(service.address(), "/act", &headers, order("each", "write")).await;
        assert_ran(&response);
    }
    for account in ["Ada", "ADA", "ada."] {
        let headers = [("x-account", account), ("idempotency-key", "abc")];
        assert_ran(&http::post(service.address(), "/act", &headers, order("each", "write")).await);
    }
    let quoted = [("x-account", "ada"), ("idempotency-key", "\"abc\"")];
    assert_replayed(&http::post(service.address(), "/act", &quoted, order("each", "write")).await);
    assert_eq!((rows(&database, "each").await, service.runs(), records(&database).await), (9, 9, 9));
}
