//! Messages by the attribute on a plain function: once for each id.
//! A "delivery" is one call. What messages share with requests is tested there.

use axum::Router;
use idem_runtime::{
    Code, Scope, ScopeId, idempotent,
    messages::{ConsumeError, Once},
};
use idem_tests::soon;
use sqlx::Executor;

use super::{ABORTS, Connection, app::*};

struct Message {
    id: Option<&'static str>,
    body: &'static str,
}

/// Where messages come from.
struct Queue(&'static str);

impl Scope for Queue {
    fn scope_id(&self) -> ScopeId {
        ScopeId::new(self.0)
    }
}

const ORDERS: Queue = Queue("orders");
const M: Message = Message { id: Some("m"), body: "" };

type Told = Result<Once<String>, ConsumeError<sqlx::Error>>;

/// Writes a row, and then does as its message says.
#[idempotent(scope = queue, key = message.id)]
async fn handle(queue: &Queue, message: Message, tx: &mut Connection, app: &App) -> Result<String, sqlx::Error> {
    act(queue, message.body, tx, app).await
}

/// Another consumer of the same messages.
#[idempotent(scope = queue, key = id, payload = body, retention = "7d")]
async fn audit(
    queue: &Queue,
    Message { id, body }: Message,
    tx: &mut Connection,
    app: &App,
) -> Result<String, sqlx::Error> {
    assert!(id.is_some(), "it was the key");
    act(queue, body, tx, app).await
}

/// A consumer that was renamed, and says so.
#[idempotent(scope = queue, key = id, operation = "handle")]
async fn handle_by_another_name(queue: Queue, id: &str, tx: &mut Connection, app: &App) -> Result<String, sqlx::Error> {
    let _ = id;
    act(&queue, "", tx, app).await
}

async fn act(queue: &Queue, what: &str, tx: &mut Connection, app: &App) -> Result<String, sqlx::Error> {
    app.runs.begin();
    sqlx::query("INSERT INTO payments (account) VALUES ($1)").bind(queue.0).execute(&mut *tx).await?;
    match what {
        "fail" => return Err(sqlx::Error::RowNotFound),
        "panic" => panic!("on purpose"),
        "hold" => app.gate.pass().await,
        sql if sql.ends_with(';') => drop(tx.execute(sqlx::AssertSqlSafe(sql.to_owned())).await),
        _ => {}
    }
    Ok(format!("receipt {}", app.runs.count()))
}

async fn deliver(service: &Service, body: &'static str) -> Told {
    handle(&service.app.idempotency, &ORDERS, Message { body, ..M }, &service.app).await
}

#[tokio::test]
async fn b83_a_message_runs_once_and_its_duplicates_are_told_its_value() {
    let service = Service::start(Router::new()).await;
    let other = service.beside(Router::new()).await;
    assert_eq!(deliver(&service, "").await.unwrap(), Once::Ran("receipt 1".to_owned()));
    for duplicate in 0..1000 {
        let node = if duplicate % 2 == 0 { &service } else { &other };
        assert_eq!(deliver(node, "").await.unwrap(), Once::AlreadyDone("receipt 1".to_owned()));
    }
    let next = Message { id: Some("next"), body: "" };
    assert!(matches!(handle(&service.app.idempotency, &ORDERS, next, &service.app).await, Ok(Once::Ran(_))));
    assert_eq!(service.counts().await, (2, 2, 2));
}

#[tokio::test]
async fn b82_a_message_that_fails_panics_or_does_not_commit_is_rolled_back_and_its_redelivery_runs() {
    let service = Service::start(Router::new()).await;
    let failed = deliver(&service, "fail").await;
    assert!(matches!(failed, Err(ConsumeError::Failed(sqlx::Error::RowNotFound))), "{failed:?}");
    let panicked = deliver(&service, "panic").await;
    assert!(matches!(panicked, Err(ConsumeError::Panicked)), "{panicked:?}");
    let ended = deliver(&service, "ROLLBACK;").await;
    assert!(matches!(ended, Err(ConsumeError::Store { code: Code::TransactionEnded, .. })), "{ended:?}");
    service
        .execute("CREATE TABLE deferred (payment INTEGER REFERENCES payments (id) DEFERRABLE INITIALLY DEFERRED)")
        .await;
    let refused = deliver(&service, "INSERT INTO deferred VALUES (4711);").await;
    assert!(matches!(refused, Err(ConsumeError::Store { code: Code::TransactionAborted, .. })), "{refused:?}");
    assert_eq!(service.counts().await, (4, 0, 0));
    assert_eq!(deliver(&service, "").await.unwrap(), Once::Ran("receipt 5".to_owned()));
    assert_eq!(service.counts().await, (5, 1, 1));
}

#[tokio::test]
async fn b82_a_consumer_that_dies_in_the_middle_leaves_nothing_and_its_redelivery_runs() {
    let service = Service::start(Router::new()).await;
    let app = service.app.clone();
    let first =
        tokio::spawn(async move { handle(&app.idempotency, &ORDERS, Message { body: "hold", ..M }, &app).await });
    service.app.gate.entered().await;
    first.abort();
    assert!(soon("its end", first).await.unwrap_err().is_cancelled());
    service.database.no_transaction().await;
    assert!(matches!(soon("an answer", deliver(&service, "")).await, Ok(Once::Ran(_))));
    assert_eq!(service.counts().await, (2, 1, 1));
}

#[tokio::test]
async fn b84_a_message_that_is_in_progress_elsewhere_is_not_to_be_acknowledged() {
    for commits in [true, false] {
        let service = Service::start(Router::new()).await;
        let other = service.beside(Router::new()).await;
        let app = service.app.clone();
        let first =
            tokio::spawn(async move { handle(&app.idempotency, &ORDERS, Message { body: "hold", ..M }, &app).await });
        service.app.gate.entered().await;
        // SQLite has one writer, whom another process waits for.
        for node in if ABORTS { vec![&service, &other] } else { vec![&service] } {
            let second = soon("an answer", deliver(node, "")).await;
            assert!(matches!(second, Err(ConsumeError::InProgress)), "{second:?}");
        }
        if commits {
            service.app.gate.open();
            assert!(matches!(first.await.unwrap(), Ok(Once::Ran(_))));
            assert!(matches!(deliver(&other, "").await, Ok(Once::AlreadyDone(_))));
        } else {
            first.abort();
            assert!(soon("its end", first).await.unwrap_err().is_cancelled());
            service.database.no_transaction().await;
            assert!(matches!(soon("an answer", deliver(&other, "")).await, Ok(Once::Ran(_))));
        }
        assert_eq!(service.counts().await.1, 1);
    }
}

#[tokio::test]
async fn another_message_under_one_id_is_reported_and_the_first_stays() {
    let service = Service::start(Router::new()).await;
    let audit = async |body| audit(&service.app.idempotency, &ORDERS, Message { body, ..M }, &service.app).await;
    assert!(matches!(audit("10 EUR").await, Ok(Once::Ran(_))));
    assert!(matches!(audit("99 EUR").await, Err(ConsumeError::OtherMessage)));
    assert!(matches!(audit("10 EUR").await, Ok(Once::AlreadyDone(_))));
    assert_eq!(service.counts().await, (1, 1, 1));
    // Without `payload` equal ids are equal messages.
    assert!(matches!(deliver(&service, "10 EUR").await, Ok(Once::Ran(_))));
    assert!(matches!(deliver(&service, "99 EUR").await, Ok(Once::AlreadyDone(_))));
}

#[tokio::test]
async fn a_message_without_id_or_source_is_an_error_and_does_not_run() {
    let service = Service::start(Router::new()).await;
    let (idempotency, app) = (&service.app.idempotency, &service.app);
    for id in [None, Some("")] {
        let told = handle(idempotency, &ORDERS, Message { id, body: "" }, app).await;
        assert!(matches!(told, Err(ConsumeError::NoId)), "{told:?}");
    }
    let told = handle(idempotency, &Queue(""), M, app).await;
    assert!(matches!(told, Err(ConsumeError::Store { code: Code::ScopeEmpty, .. })), "{told:?}");
    assert_eq!(service.counts().await, (0, 0, 0));
}

#[tokio::test]
async fn one_id_of_two_sources_and_for_two_consumers_is_two_messages_each() {
    let service = Service::start(Router::new()).await;
    let (idempotency, app) = (&service.app.idempotency, &service.app);
    for queue in ["orders", "refunds"] {
        assert!(matches!(handle(idempotency, &Queue(queue), M, app).await, Ok(Once::Ran(_))), "{queue}");
        assert!(matches!(audit(idempotency, &Queue(queue), M, app).await, Ok(Once::Ran(_))), "{queue}");
    }
    assert_eq!(service.counts().await, (4, 4, 4));
    // The same operation, by its stored name and by the call.
    let renamed = handle_by_another_name(idempotency, ORDERS, "m", app).await;
    assert!(matches!(renamed, Ok(Once::AlreadyDone(_))), "{renamed:?}");
    let consumer = idempotency.consumer("handle");
    let called = consumer.once("orders", "m", |_| Box::pin(async { Ok::<_, sqlx::Error>(String::new()) })).await;
    assert!(matches!(called, Ok(Once::AlreadyDone(_))), "{called:?}");
}

#[tokio::test]
async fn b86_a_message_is_known_as_long_as_its_consumer_says() {
    let service = Service::start(Router::new()).await;
    let audit = async || audit(&service.app.idempotency, &ORDERS, M, &service.app).await.unwrap();
    assert!(matches!(audit().await, Once::Ran(_)));
    assert!(matches!(deliver(&service, "").await, Ok(Once::Ran(_))));
    service.age(29 * 60 * 60).await;
    // After a restart.
    let other = service.beside(Router::new()).await;
    assert!(matches!(audit().await, Once::AlreadyDone(_)));
    assert!(matches!(deliver(&other, "").await, Ok(Once::Ran(_))), "a day by default");
    service.age(6 * 86_400).await;
    assert!(matches!(audit().await, Once::Ran(_)));
}
