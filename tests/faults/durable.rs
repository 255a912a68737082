//! Commits that must outlive a crash of the server, in sessions whose default does not wait for the disk.
//! A deferred trigger sees the setting at the commit itself, which is where the server reads it.

use idem_runtime::messages::Once;
use idem_tests::{
    assertions::assert_ran,
    databases::{Postgres, postgres},
    service::Service,
};
use sqlx::Executor;

/// Writes down how each commit of a record waits.
const WATCH: &str = "\
    CREATE TABLE waits (how TEXT); \
    CREATE FUNCTION watch() RETURNS trigger LANGUAGE plpgsql AS \
        $$ BEGIN INSERT INTO waits VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$; \
    CREATE CONSTRAINT TRIGGER watch AFTER INSERT OR UPDATE ON idem_records DEFERRABLE INITIALLY DEFERRED \
        FOR EACH ROW EXECUTE FUNCTION watch()";

/// A service whose sessions begin with this setting.
async fn service(setting: &str) -> (Postgres, Service) {
    let database = postgres().await;
    database.set("synchronous_commit", setting).await;
    let service = Service::start(&database).await;
    service.pool.execute(WATCH).await.unwrap();
    (database, service)
}

async fn waits(service: &Service) -> Vec<String> {
    sqlx::query_scalar("DELETE FROM waits RETURNING how").fetch_all(&service.pool).await.unwrap()
}

#[tokio::test]
async fn external_claims_and_completions_wait_for_the_disk() {
    let (_database, service) = service("off").await;
    for act in ["write", "alone"] {
        assert_ran(&service.charge("/charge", act, act).await);
        assert_eq!(waits(&service).await, ["on", "on"], "the claim and the completion: {act}");
    }
    // Decided by the recovery; the attempt itself ends its lease, which may be lost.
    assert_eq!(service.charge("/doubt", "k", "panic").await.status, 500);
    waits(&service).await;
    assert_eq!(service.sweep().await.completed, 1);
    assert_eq!(waits(&service).await.last().map(String::as_str), Some("on"));
}

#[tokio::test]
async fn consumers_wait_for_the_disk_and_handlers_are_as_the_session_is() {
    let (_database, service) = service("off").await;
    assert_ran(&service.send("k", "write").await);
    assert_eq!(waits(&service).await, ["off"]);
    let consumer = service.idempotency.consumer("receipt");
    let done = consumer.once("queue", "m", |_| Box::pin(async { Ok::<_, sqlx::Error>(()) })).await;
    assert!(matches!(done, Ok(Once::Ran(()))), "{done:?}");
    assert_eq!(waits(&service).await, ["on"]);
    // The setting goes with its transaction.
    assert_ran(&service.send("k2", "write").await);
    assert_eq!(waits(&service).await, ["off"]);
}

/// A stronger setting than "on" is not weakened.
#[tokio::test]
async fn what_waits_for_standbys_too_is_left_as_it_is() {
    let (_database, service) = service("remote_apply").await;
    assert_ran(&service.charge("/charge", "k", "write").await);
    assert_ran(&service.charge("/charge", "k2", "alone").await);
    assert_eq!(waits(&service).await, ["remote_apply"; 4]);
}
