//! How long an attempt with external effects is replayed, and that a record in progress never expires.
//! The longest retention is stored, too.

use super::*;

#[tokio::test]
async fn b64_past_its_retention_a_key_is_new_with_either_kind_of_effects() {
    let service = Service::start(routes()).await;
    service.post("/charge", "k", "1").await;
    service.age(24 * 60 * 60 + 1).await;
    assert_eq!(service.post("/pay", "k", "1").await.text(), "run 2 for alice");
    service.age(24 * 60 * 60 + 1).await;
    let third = service.post("/charge", "k", "1").await;
    assert_eq!(third.text(), "run 3 for alice");
    assert_replay(&third, &service.post("/charge", "k", "1").await);
    assert_eq!(service.counts().await, (3, 3, 1));
}

#[tokio::test]
async fn b64_a_record_in_progress_is_never_pruned_and_never_expires() {
    let service = Service::start(routes()).await;
    let first = service.posting("/hold-charge", "k", "1");
    service.app.gate.entered().await;
    service.execute(LAPSE).await;
    service.execute(super::super::BEGAN_LONG_AGO).await;
    assert_eq!(service.app.idempotency.prune().await.unwrap(), 0);
    assert_problem(&service.beside(routes()).await.post("/hold-charge", "k", "1").await, 409, "in-progress");
    service.app.gate.open();
    assert_eq!(first.await.unwrap().status, 201);
}

#[tokio::test]
async fn the_longest_retention_is_one() {
    #[idempotent(scope = account, effects = external, retention = "36500d")]
    async fn for_ever(_: &mut Attempt<Db>, State(app): State<App>, account: Account) -> StatusCode {
        app.runs.begin();
        StatusCode::CREATED
    }

    let service = Service::start(Router::new().route("/ever", post(for_ever))).await;
    let first = service.post("/ever", "k", "").await;
    assert_replay(&first, &service.post("/ever", "k", "").await);
    assert_eq!(service.counts().await, (1, 0, 1));
}
