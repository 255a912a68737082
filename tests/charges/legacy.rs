//! A network that honours no keys: look first, then charge. What that gives, and what it cannot give.
//! The last test is about the promise that nobody can make there; it fails when the documentation says too little.

use idem_tests::databases::{postgres, sqlite};

use super::harness::{Ask, Decided, LEGACY, Network, app, kill, one_charge, replayed, rows, runs};

/// The process is killed after the charge and before the commit: found by its reference, it is one charge.
async fn b104_killed_after_the_charge(url: &str) {
    let network = Network::without_keys().await;
    let dead = app(url, &network.url()).await;
    network.next("hold-answer").await;
    let _client = LEGACY.begin(&dead).await;
    network.holding(1).await;
    kill(dead).await;
    let app = app(url, &network.url()).await;
    one_charge(&network, &app, LEGACY, Decided::Replay).await;
    assert_eq!(network.requests().await, 1);
}

#[tokio::test]
async fn b104_looked_up_after_a_kill_on_postgres() {
    b104_killed_after_the_charge(&postgres().await.url()).await;
}

#[tokio::test]
async fn b104_looked_up_after_a_kill_on_sqlite() {
    let database = sqlite();
    b104_killed_after_the_charge(&database.url()).await;
}

/// Answers that do not come, while the app lives: the charge is looked up, not made again.
#[tokio::test]
async fn b104_a_broken_answer_is_looked_up() {
    let (network, database) = (Network::without_keys().await, sqlite());
    let app = app(&database.url(), &network.url()).await;
    for (number, conduct) in ["cut-answer", "drop-answer"].into_iter().enumerate() {
        network.next(conduct).await;
        let key = format!("order-{number}");
        let answer = Ask { key: &key, ..LEGACY }.answer(&app).await;
        assert_eq!(answer.status, 201, "{conduct}: {}", answer.text());
        assert_eq!(network.ledger().await.len(), number + 1);
    }
    assert_eq!((network.requests().await, runs(&app).await, rows(&app).await.len()), (2, 2, 2));
}

/// Nothing was charged: asked twice, a back-off apart, recovery frees the key, and the retry charges once.
#[tokio::test]
async fn b104_a_call_that_failed_is_freed_and_made_once() {
    let (network, database) = (Network::without_keys().await, sqlite());
    let app = app(&database.url(), &network.url()).await;
    network.next("fail").await;
    assert_eq!(LEGACY.answer(&app).await.status, 502);
    let answer = LEGACY.decided(&app).await;
    assert_eq!((answer.status, replayed(&answer), runs(&app).await), (201, false, 2));
    assert_eq!((network.ledger().await.len(), rows(&app).await.len()), (1, 1));
}

/// A charge that was under way at recovery's first look and is written down by its second: that is why it looks twice.
#[tokio::test]
async fn b104_nothing_is_believed_only_when_said_twice() {
    let (network, database) = (Network::without_keys().await, sqlite());
    let dead = app(&database.url(), &network.url()).await;
    network.next("hold-request").await;
    let _client = LEGACY.begin(&dead).await;
    network.holding(1).await;
    kill(dead).await;
    network.looked_up(1).await; // the handler's own
    let app = app(&database.url(), &network.url()).await;
    network.looked_up(2).await;
    network.release().await;
    one_charge(&network, &app, LEGACY, Decided::Replay).await;
}

/// **Not guaranteed, and here is how it fails:** the stalled attempt's charge is still in flight at the network while
/// recovery looks, so recovery does not see it, and the retry charges too. `called_and_still_under_way` is the same
/// with keys: one charge.
#[tokio::test]
async fn b104_where_the_guarantee_ends() {
    let (network, database) = (Network::without_keys().await, sqlite());
    let dead = app(&database.url(), &network.url()).await;
    network.next("hold-request").await;
    let _client = LEGACY.begin(&dead).await;
    network.holding(1).await;
    kill(dead).await;
    let app = app(&database.url(), &network.url()).await;
    one_charge(&network, &app, LEGACY, Decided::Run).await;
    network.release().await;
    network.charged(2).await;
    let ledger = network.ledger().await;
    assert_eq!(ledger[0]["reference"], ledger[1]["reference"], "at least a person can find both");
    assert_eq!(rows(&app).await.len(), 1);
}
