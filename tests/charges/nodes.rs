//! More than one app, more than one attempt, and apps that are asked to end instead of being killed.
//! Each request still ends as one charge, one row and one response.

use futures_util::future::join_all;
use idem_tests::{
    databases::{postgres, sqlite},
    http,
    process::Process,
};
use serde_json::json;

use super::harness::{
    Ask, CHARGE, Decided, Network, app, app_command, app_without_recovery, kill, one_charge, replayed, rows, runs,
    sqlite_lease_over,
};

/// How many attempts die with their app.
const MANY: u64 = 12;

/// Two apps look for the stalled attempts of a third at the same time, continuously: every record is decided once.
async fn two_recover(url: &str) {
    let network = Network::start().await;
    let dead = app_without_recovery(url, &network.url()).await;
    let half = u32::try_from(MANY / 2).expect("a number");
    let keys: Vec<_> = (0..MANY).map(|number| format!("order-{number}")).collect();
    let (charged, uncharged) = keys.split_at(keys.len() / 2);
    network.next_times("hold-answer", half).await;
    let _clients = join_all(charged.iter().map(|key| Ask { key, ..CHARGE }.begin(&dead))).await;
    network.holding(MANY / 2).await;
    network.next_times("hold-request", half).await;
    let _clients = join_all(uncharged.iter().map(|key| Ask { key, ..CHARGE }.begin(&dead))).await;
    network.holding(MANY).await;
    kill(dead).await;

    let recovering = async || {
        let mut command = app_command(url, &network.url());
        command.env("RECOVER_EVERY", "20");
        Process::start(command).await
    };
    let (one, other) = (recovering().await, recovering().await);
    for (number, key) in keys.iter().enumerate() {
        let app = if number % 2 == 0 { &one } else { &other };
        let answer = Ask { key, ..CHARGE }.decided(app).await;
        assert_eq!((answer.status, replayed(&answer)), (201, charged.contains(key)), "{}", answer.text());
    }
    network.release().await;
    network.charged(keys.len()).await;
    let (ledger, rows) = (network.ledger().await, rows(&one).await);
    let ids = |list: &[serde_json::Value]| {
        let mut ids: Vec<_> = list.iter().map(|charge| charge["id"].to_string()).collect();
        ids.sort();
        ids
    };
    assert_eq!(ids(&ledger), ids(&rows));
    assert_eq!(runs(&one).await + runs(&other).await, MANY / 2);
}

#[tokio::test]
async fn two_apps_recover_at_once_on_postgres() {
    two_recover(&postgres().await.url()).await;
}

#[tokio::test]
async fn two_apps_recover_at_once_on_sqlite() {
    let database = sqlite();
    two_recover(&database.url()).await;
}

/// An app is asked to end while it waits for the network, and its client has left. It ends what it began,
/// so nothing is left to recover.
async fn told_to_end(url: &str) {
    let network = Network::start().await;
    let mut ending = app(url, &network.url()).await;
    network.next("hold-answer").await;
    let client = CHARGE.begin(&ending).await;
    network.holding(1).await;
    drop(client);
    ending.signal("TERM").await;
    network.release().await;
    let ended = ending.wait().await;
    assert!(ended.success(), "{ended}: {}", ending.output());
    let app = app_without_recovery(url, &network.url()).await;
    assert_eq!(CHARGE.answer(&app).await.status, 201);
    one_charge(&network, &app, CHARGE, Decided::Replay).await;
}

#[tokio::test]
async fn b60_an_app_told_to_end_ends_what_it_began_on_postgres() {
    told_to_end(&postgres().await.url()).await;
}

#[tokio::test]
async fn b60_an_app_told_to_end_ends_what_it_began_on_sqlite() {
    let database = sqlite();
    told_to_end(&database.url()).await;
}

/// Two accounts with one key, and one account with two: nobody's derived key is another's.
#[tokio::test]
async fn b75_derived_keys_belong_to_an_account_and_a_key() {
    let (network, database) = (Network::start().await, sqlite());
    let app = app(&database.url(), &network.url()).await;
    assert_eq!(CHARGE.answer(&app).await.status, 201);
    assert_eq!(Ask { key: "order-2", ..CHARGE }.answer(&app).await.status, 201);
    let body = json!({ "amount": 1999, "currency": "USD", "source": "tok_visa" }).to_string();
    let grace = [("authorization", "Bearer grace"), ("idempotency-key", CHARGE.key)];
    assert_eq!(http::post(app.address(), "/charges", &grace, body).await.status, 201);
    let ledger = network.ledger().await;
    let keys: Vec<_> = ledger.iter().map(|charge| charge["key"].as_str().expect("a key")).collect();
    let [first, second, third] = keys[..] else { panic!("not three charges: {ledger:?}") };
    assert!(first != second && first != third && second != third, "{keys:?}");
    for key in keys {
        assert!(key.len() == 32 && key.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')), "{key}");
        assert!(!key.contains(CHARGE.key));
    }
}

/// An app without recovery leaves another app's stalled attempt unchanged: retries get a 409, and nothing runs.
#[tokio::test]
async fn a_retry_never_runs_a_dead_attempt() {
    let (network, database) = (Network::start().await, sqlite());
    let dead = app_without_recovery(&database.url(), &network.url()).await;
    network.next("hold-request").await;
    let _client = CHARGE.begin(&dead).await;
    network.holding(1).await;
    kill(dead).await;
    let app = app_without_recovery(&database.url(), &network.url()).await;
    let in_progress = async || {
        let answer = CHARGE.answer(&app).await;
        assert_eq!((answer.status, answer.json()["code"].as_str()), (409, Some("in-progress")));
    };
    in_progress().await;
    sqlite_lease_over(&database).await;
    for _ in 0..20 {
        in_progress().await;
    }
    let other = Ask { amount: 2999, ..CHARGE }.answer(&app).await;
    assert_eq!((other.status, other.json()["code"].as_str()), (422, Some("idempotency-key-reuse")));
    assert_eq!((runs(&app).await, rows(&app).await.len(), network.requests().await), (0, 0, 1));
}
