//! An app that is paused in the middle of its call for longer than its lease, and comes back. Meanwhile, or soon after,
//! another app decides the attempt's outcome. There is one decision; the client of a late attempt gets a 409 or 503.

use idem_tests::{
    databases::{postgres, sqlite},
    http::{Connection, RawResponse},
    process::Process,
    proxy::Proxy,
};

use super::harness::{
    Ask, CHARGE, Network, app, app_without_recovery, kill, postgres_lease_over, replayed, rows, runs,
    sqlite_lease_over, through,
};

/// An app that waits for the network's response, and is paused there.
async fn paused(url: &str, network: &Network, ask: Ask<'_>) -> (Process, Connection) {
    let app = app_without_recovery(url, &network.url()).await;
    network.next("hold-answer").await;
    let client = ask.begin(&app).await;
    network.holding(1).await;
    app.signal("STOP").await;
    (app, client)
}

/// The response to a client whose attempt lost its lease: it should retry, and the retry gets the decision.
fn too_late(answer: &RawResponse) {
    assert!([409, 503].contains(&answer.status), "{} {}", answer.status, answer.text());
    assert!(answer.header("retry-after").is_some());
}

/// A charge has a row, whose identifier nobody can write twice. A decline has none: there the lease alone keeps the late
/// attempt from writing.
async fn b62_after_the_verdict(url: &str) {
    for (ask, status) in [(CHARGE, 201), (Ask { key: "order-2", source: "tok_declined", ..CHARGE }, 402)] {
        let network = Network::start().await;
        let (late, mut client) = paused(url, &network, ask).await;
        let other = app(url, &network.url()).await;
        let decided = ask.decided(&other).await;
        assert_eq!((decided.status, replayed(&decided)), (status, true), "{}", decided.text());

        late.signal("CONT").await;
        network.release().await;
        too_late(&client.response().await);
        for app in [&late, &other] {
            let again = ask.answer(app).await;
            assert_eq!((again.status, replayed(&again), &again.body), (status, true, &decided.body));
            assert_eq!(rows(app).await.len(), 1);
        }
        assert_eq!(network.ledger().await.len(), 1);
        kill(late).await;
    }
}

#[tokio::test]
async fn b62_back_after_the_verdict_on_postgres() {
    b62_after_the_verdict(&postgres().await.url()).await;
}

#[tokio::test]
async fn b62_back_after_the_verdict_on_sqlite() {
    let database = sqlite();
    b62_after_the_verdict(&database.url()).await;
}

/// Recovery has written its verdict, but not committed it, when the attempt comes back with the response.
#[tokio::test]
async fn b62_back_before_the_verdict_on_postgres() {
    let (network, database) = (Network::start().await, postgres().await);
    let (late, mut client) = paused(&database.url(), &network, CHARGE).await;
    let proxy = Proxy::start(&database).await;
    let trap = proxy.hold_answer("INSERT INTO charges");
    let other = app(&through(&proxy, &database), &network.url()).await;
    trap.sprung().await;

    late.signal("CONT").await;
    network.release().await;
    network.holding(0).await;
    trap.release();
    let decided = CHARGE.decided(&other).await;
    assert_eq!((decided.status, replayed(&decided)), (201, true), "{}", decided.text());
    // Either of the two was first: one response.
    let answer = client.response().await;
    if answer.status == 201 {
        assert_eq!(answer.body, decided.body);
    } else {
        too_late(&answer);
    }
    assert_eq!((network.ledger().await.len(), rows(&other).await), (1, vec![decided.json()]));
    assert_eq!(CHARGE.answer(&late).await.body, decided.body);
    kill(late).await;
}

/// Nobody else has looked: a lease that ran out is no verdict.
async fn b62_nobody_decided(url: &str, lease_over: impl Future<Output = ()>) {
    let network = Network::start().await;
    let (late, mut client) = paused(url, &network, CHARGE).await;
    let other = app_without_recovery(url, &network.url()).await;
    lease_over.await;
    // The other app says "ask again", and runs nothing.
    let twin = CHARGE.answer(&other).await;
    assert_eq!((twin.status, twin.json()["code"].as_str(), runs(&other).await), (409, Some("in-progress"), 0));
    late.signal("CONT").await;
    network.release().await;
    let answer = client.response().await;
    if answer.status != 201 {
        too_late(&answer);
        kill(late).await;
        kill(other).await;
        let recovering = app(url, &network.url()).await;
        let decided = CHARGE.decided(&recovering).await;
        assert_eq!((decided.status, replayed(&decided)), (201, true), "{}", decided.text());
        assert_eq!((network.ledger().await.len(), rows(&recovering).await.len()), (1, 1));
        return;
    }
    let again = CHARGE.answer(&other).await;
    assert_eq!((again.status, replayed(&again), again.body), (201, true, answer.body));
    assert_eq!((network.ledger().await.len(), rows(&other).await.len()), (1, 1));
    kill(late).await;
}

#[tokio::test]
async fn b62_back_where_nobody_decided_on_postgres() {
    let database = postgres().await;
    b62_nobody_decided(&database.url(), postgres_lease_over(&database)).await;
}

#[tokio::test]
async fn b62_back_where_nobody_decided_on_sqlite() {
    let database = sqlite();
    b62_nobody_decided(&database.url(), sqlite_lease_over(&database)).await;
}
