//! The value of a consumer is read back before it commits: one that its own type cannot read is an error at the first delivery.
//! Types that do not serialise at all are in `once`.

use axum::Router;
use idem_runtime::{
    idempotent,
    messages::{ConsumeError, Once},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{Connection, app::*};

#[derive(Debug, Serialize, Deserialize)]
struct Skipped {
    #[serde(skip_serializing)]
    _secret: u8,
}

#[derive(Debug, Serialize, Deserialize)]
struct Renamed {
    #[serde(rename(serialize = "other"))]
    _id: u8,
}

/// Writes a row and returns a number.
#[idempotent(scope = source, key = id)]
async fn measured(source: &str, id: u8, tx: &mut Connection, number: f64) -> Result<f64, sqlx::Error> {
    let insert = sqlx::query("INSERT INTO payments (account) VALUES ($1)").bind(format!("{source} {id}"));
    insert.execute(tx).await.map(|_| number)
}

/// The effect's value is refused, each time, and its row is rolled back.
async fn assert_refused<T: Serialize + DeserializeOwned + std::fmt::Debug + Send + 'static>(
    service: &Service,
    value: fn() -> T,
) {
    for _ in 0..2 {
        let told = service.app.idempotency.once("source", "m", |tx| {
            Box::pin(async move {
                write(tx, &Account("a message".to_owned())).await;
                Ok::<_, sqlx::Error>(value())
            })
        });
        let told = told.await;
        assert!(matches!(told, Err(ConsumeError::Value(_))), "{told:?}");
        assert_eq!(service.counts().await, (0, 0, 0));
    }
}

#[tokio::test]
async fn a_value_that_its_type_cannot_read_is_refused_at_the_first_delivery() {
    let service = Service::start(Router::new()).await;
    assert_refused(&service, || f64::NAN).await;
    assert_refused(&service, || Skipped { _secret: 1 }).await;
    assert_refused(&service, || Renamed { _id: 1 }).await;
    for number in [f64::NAN, f64::INFINITY] {
        let told = measured(&service.app.idempotency, "source", 1, number).await;
        assert!(matches!(told, Err(ConsumeError::Value(_))), "{told:?}");
    }
    assert_eq!(service.counts().await, (0, 0, 0));
    assert_eq!(measured(&service.app.idempotency, "source", 1, 1.5).await.unwrap(), Once::Ran(1.5));
    assert_eq!(measured(&service.app.idempotency, "source", 1, 2.5).await.unwrap(), Once::AlreadyDone(1.5));
    assert_eq!(service.counts().await, (0, 1, 1));
}

#[tokio::test]
async fn a_value_that_json_reads_as_another_is_not_recognised_as_documented() {
    let service = Service::start(Router::new()).await;
    let deliver = async || {
        let told = service.app.idempotency.once("source", "m", |_| Box::pin(async { Ok::<_, sqlx::Error>(Some(())) }));
        told.await.unwrap()
    };
    assert_eq!((deliver().await, deliver().await), (Once::Ran(Some(())), Once::AlreadyDone(None)));
}
