//! Messages by the call `once`: each effect once, whatever the queue redelivers, and a typed result to act on.
//! Order comes from gates; a "delivery" is one call, a second instance is one with nothing in memory shared.

use std::sync::Arc;

use axum::{Router, http::StatusCode, response::IntoResponse, routing::post};
use futures_util::future::join_all;
use idem_runtime::{
    Code, Idempotency, Retention, ScopeId,
    messages::{ConsumeError, Once},
};
use idem_tests::{gate::Gate, soon};
use sqlx::{Executor, Transaction};

use super::{ABORTS, Db, app::*};

type Told = Result<Once<String>, ConsumeError<sqlx::Error>>;

const QUEUE: &str = "orders";

fn routes() -> Router<App> {
    Router::new().route("/pay", post(pay))
}

async fn row(tx: &mut Transaction<'static, Db>) -> Result<String, sqlx::Error> {
    sqlx::query("INSERT INTO payments (account) VALUES ('a message')").execute(&mut **tx).await?;
    Ok("receipt".to_owned())
}

/// One delivery, whose effect writes a row.
async fn deliver(service: &Service, source: &str, id: &str) -> Told {
    let runs = service.app.runs.clone();
    service
        .app
        .idempotency
        .once(source, id, |tx| {
            Box::pin(async move {
                runs.begin();
                row(tx).await
            })
        })
        .await
}

/// A delivery under way, which stays at the gate in its effect.
fn delivering(idempotency: Idempotency<Db>, gate: Gate, succeed: bool) -> tokio::task::JoinHandle<Told> {
    tokio::spawn(async move {
        idempotency
            .once(QUEUE, "m", |tx| {
                Box::pin(async move {
                    let receipt = row(tx).await?;
                    gate.pass().await;
                    if succeed { Ok(receipt) } else { Err(sqlx::Error::RowNotFound) }
                })
            })
            .await
    })
}

#[tokio::test]
async fn b83_a_duplicate_is_told_the_stored_value_a_thousand_times() {
    let service = Service::start(routes()).await;
    assert_eq!(deliver(&service, QUEUE, "m").await.unwrap(), Once::Ran("receipt".to_owned()));
    let other = service.beside(routes()).await;
    for delivery in 0..1000 {
        let node = if delivery % 2 == 0 { &service } else { &other };
        assert_eq!(deliver(node, QUEUE, "m").await.unwrap(), Once::AlreadyDone("receipt".to_owned()));
        if delivery % 100 == 0 {
            assert_eq!(deliver(node, QUEUE, &format!("new {delivery}")).await.unwrap().into_value(), "receipt");
        }
    }
    assert_eq!(service.counts().await, (11, 11, 11));
}

#[tokio::test]
async fn two_sources_two_consumers_and_a_request_are_independent() {
    let service = Service::start(routes()).await;
    let idempotency = &service.app.idempotency;
    for source in ["orders", "refunds"] {
        for consumer in ["once", "send_receipt", "count"] {
            let told = idempotency.consumer(consumer).once(source, "m", |tx| Box::pin(row(tx))).await.unwrap();
            assert!(matches!(told, Once::Ran(_)), "{source} {consumer}");
        }
    }
    let realm = ScopeId::new("orders").and("eu");
    assert!(matches!(idempotency.once(realm, "m", |tx| Box::pin(row(tx))).await.unwrap(), Once::Ran(_)));
    assert_eq!(service.send("POST", "/pay", &[("authorization", "Bearer orders"), (KEY, "m")], "").await.status, 201);
    assert_eq!(service.counts().await, (1, 8, 8));
    // An effect without a name is called `once`.
    assert!(matches!(deliver(&service, "orders", "m").await.unwrap(), Once::AlreadyDone(_)));
}

#[tokio::test]
async fn b82_an_effect_that_fails_or_panics_is_rolled_back_and_its_redelivery_runs() {
    let service = Service::start(routes()).await;
    let failed = service
        .app
        .idempotency
        .once(QUEUE, "m", |tx| {
            Box::pin(async move {
                row(tx).await?;
                Err::<String, _>(sqlx::Error::RowNotFound)
            })
        })
        .await;
    assert!(matches!(failed, Err(ConsumeError::Failed(sqlx::Error::RowNotFound))), "{failed:?}");
    let panicked: Told = service
        .app
        .idempotency
        .once(QUEUE, "m", |tx| {
            Box::pin(async move {
                row(tx).await?;
                panic!("on purpose")
            })
        })
        .await;
    assert!(matches!(panicked, Err(ConsumeError::Panicked)), "{panicked:?}");
    assert_eq!(service.counts().await, (0, 0, 0));
    assert_eq!(deliver(&service, QUEUE, "m").await.unwrap(), Once::Ran("receipt".to_owned()));
    assert_eq!(service.counts().await, (1, 1, 1));
}

#[tokio::test]
async fn b82_a_commit_that_fails_is_no_effect_and_its_redelivery_runs() {
    let service = Service::start(routes()).await;
    service
        .execute("CREATE TABLE deferred (payment INTEGER REFERENCES payments (id) DEFERRABLE INITIALLY DEFERRED)")
        .await;
    let endings = [
        ("INSERT INTO deferred VALUES (4711)", Code::TransactionAborted, 0),
        ("ROLLBACK", Code::TransactionEnded, 0),
        ("COMMIT", Code::TransactionEnded, 1),
    ];
    for (sql, code, rows) in endings {
        let told: Told = service
            .app
            .idempotency
            .once(QUEUE, "m", |tx| {
                Box::pin(async move {
                    let receipt = row(tx).await?;
                    let _ = tx.execute(sql).await;
                    Ok(receipt)
                })
            })
            .await;
        assert!(matches!(&told, Err(ConsumeError::Store { code: found, .. }) if *found == code), "{sql}: {told:?}");
        assert_eq!(service.counts().await, (0, rows, 0), "{sql}");
    }
    assert_eq!(deliver(&service, QUEUE, "m").await.unwrap(), Once::Ran("receipt".to_owned()));
}

#[tokio::test]
async fn b84_a_second_delivery_meanwhile_is_in_progress_and_what_it_finds_later_is_the_firsts_outcome() {
    for succeed in [true, false] {
        let service = Service::start(routes()).await;
        let other = service.beside(routes()).await;
        let gate = Gate::new();
        let first = delivering(service.app.idempotency.clone(), gate.clone(), succeed);
        gate.entered().await;
        let here = soon("an answer", deliver(&service, QUEUE, "m")).await;
        assert!(matches!(here, Err(ConsumeError::InProgress)), "{here:?}");
        // SQLite's one writer is busy: another process waits for it, and then gets an error.
        if ABORTS {
            let there = soon("an answer", deliver(&other, QUEUE, "m")).await;
            assert!(matches!(there, Err(ConsumeError::InProgress)), "{there:?}");
        }
        gate.open();
        assert_eq!(first.await.unwrap().is_ok(), succeed);
        let later = deliver(&other, QUEUE, "m").await.unwrap();
        assert_eq!(matches!(later, Once::AlreadyDone(_)), succeed, "{later:?}");
        assert_eq!(service.counts().await.1, 1);
    }
}

#[tokio::test]
async fn of_many_deliveries_at_one_moment_one_runs() {
    let service = Arc::new(Service::start(routes()).await);
    let other = Arc::new(service.beside(routes()).await);
    let deliveries = (0..40).map(|number| {
        let node = Arc::clone(if number % 2 == 0 { &service } else { &other });
        tokio::spawn(async move { deliver(&node, QUEUE, "m").await })
    });
    let told = join_all(deliveries).await;
    let ran = told.iter().filter(|told| matches!(told, Ok(Ok(Once::Ran(_))))).count();
    let fine = |told: &&Result<Told, _>| matches!(told, Ok(Ok(_) | Err(ConsumeError::InProgress)));
    assert_eq!((ran, told.iter().filter(fine).count()), (1, 40), "{told:?}");
    assert_eq!(service.counts().await, (1, 1, 1));
}

#[tokio::test]
async fn another_payload_under_one_id_is_reported_and_not_skipped() {
    let service = Service::start(routes()).await;
    let deliver = async |payload: &str| {
        let consumer = service.app.idempotency.consumer("pay").payload(payload);
        consumer.once(QUEUE, "m", |tx| Box::pin(row(tx))).await
    };
    assert!(matches!(deliver("10 EUR").await, Ok(Once::Ran(_))));
    assert!(matches!(deliver("10 EUR").await, Ok(Once::AlreadyDone(_))));
    assert!(matches!(deliver("99 EUR").await, Err(ConsumeError::OtherMessage)));
    assert_eq!(service.counts().await, (0, 1, 1));
}

#[tokio::test]
async fn a_missing_id_or_source_is_an_error_of_its_own() {
    let service = Service::start(routes()).await;
    let idempotency = &service.app.idempotency;
    assert!(matches!(deliver(&service, QUEUE, "").await, Err(ConsumeError::NoId)));
    assert!(matches!(idempotency.once(QUEUE, None::<i64>, |tx| Box::pin(row(tx))).await, Err(ConsumeError::NoId)));
    assert!(matches!(deliver(&service, "", "m").await, Err(ConsumeError::Store { code: Code::ScopeEmpty, .. })));
    assert_eq!(service.counts().await, (0, 0, 0));
    assert!(idempotency.once(QUEUE, Some(7), |tx| Box::pin(row(tx))).await.is_ok());
    assert!(matches!(deliver(&service, QUEUE, "7").await, Ok(Once::AlreadyDone(_))), "a number is its text");
}

#[tokio::test]
async fn b86_past_the_retention_a_message_is_new() {
    let service = Service::start(routes()).await;
    let deliver = async || {
        let week = Retention::new(std::time::Duration::from_secs(7 * 86_400)).unwrap();
        let consumer = service.app.idempotency.consumer("pay").retention(week);
        consumer.once(QUEUE, "m", |tx| Box::pin(row(tx))).await.unwrap()
    };
    assert!(matches!(deliver().await, Once::Ran(_)));
    service.age(29 * 60 * 60).await;
    assert!(matches!(deliver().await, Once::AlreadyDone(_)));
    service.age(6 * 86_400).await;
    assert!(matches!(deliver().await, Once::Ran(_)));
    assert_eq!(service.counts().await, (0, 2, 1));
}

#[tokio::test]
async fn a_value_that_does_not_serialise_rolls_back_and_one_that_does_not_read_is_reported() {
    let service = Service::start(routes()).await;
    let idempotency = &service.app.idempotency;
    let keyed = std::collections::BTreeMap::from([((1, 2), 3)]);
    let told = idempotency
        .once(QUEUE, "m", |tx| {
            Box::pin(async move {
                row(tx).await?;
                Ok::<_, sqlx::Error>(keyed)
            })
        })
        .await;
    assert!(matches!(told, Err(ConsumeError::Value(_))), "{told:?}");
    assert_eq!(service.counts().await, (0, 0, 0));
    deliver(&service, QUEUE, "m").await.unwrap();
    let other_type = idempotency.once(QUEUE, "m", |_| Box::pin(async { Ok::<_, sqlx::Error>(1_u8) })).await;
    assert!(matches!(other_type, Err(ConsumeError::Value(_))), "{other_type:?}");
}

#[tokio::test]
async fn a_consumer_that_is_dropped_rolls_back() {
    let service = Service::of(routes(), 1, plain, || StatusCode::OK.into_response()).await;
    let gate = Gate::new();
    let first = delivering(service.app.idempotency.clone(), gate.clone(), true);
    gate.entered().await;
    first.abort();
    assert!(soon("its end", first).await.unwrap_err().is_cancelled());
    // On the pool's only connection.
    assert!(matches!(soon("an answer", deliver(&service, QUEUE, "m")).await, Ok(Once::Ran(_))));
    assert_eq!(service.counts().await, (1, 1, 1));
}

#[tokio::test]
async fn a_store_that_is_down_is_no_acknowledgement() {
    let service = Service::start(routes()).await;
    service.execute("DROP TABLE idem_records").await;
    assert!(matches!(deliver(&service, QUEUE, "m").await, Err(ConsumeError::Store { code: Code::Schema, .. })));
    service.pool.close().await;
    assert!(matches!(
        deliver(&service, QUEUE, "m").await,
        Err(ConsumeError::Store { code: Code::StoreUnavailable, .. })
    ));
    assert_eq!(service.app.runs.count(), 0);
}
