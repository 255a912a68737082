//! The card network itself: a stand-in that charged twice, or forgot a charge, would prove nothing about its callers.
//! It makes exactly the errors that the test sets.

use idem_tests::http::{self, Connection, RawResponse};
use serde_json::{Value, json};

use super::harness::{Network, kill};

fn body(amount: u64, source: &str) -> String {
    json!({ "amount": amount, "currency": "USD", "source": source, "reference": "r-1" }).to_string()
}

async fn begin(network: &Network, key: Option<&str>, body: String) -> Connection {
    let key = key.map(|key| ("idempotency-key", key));
    let mut connection = Connection::open(network.address()).await;
    connection.send(&http::request("POST", "/charges", key.as_slice(), body)).await;
    connection
}

async fn charge(network: &Network, key: Option<&str>, body: String) -> RawResponse {
    begin(network, key, body).await.response().await
}

async fn get(network: &Network, path: &str) -> RawResponse {
    http::get(network.address(), path, &[]).await
}

#[tokio::test]
async fn a_key_is_one_charge_across_a_crash() {
    let network = Network::start().await;
    let first = charge(&network, Some("k"), body(5, "tok_visa")).await;
    assert_eq!((first.status, &first.json()["key"], &first.json()["requests"]), (201, &json!("k"), &json!(1)));
    assert_eq!(first.json()["source"], Value::Null, "a card in an answer");
    let network = network.away(async {}).await;
    let again = charge(&network, Some("k"), body(5, "tok_visa")).await;
    assert_eq!((again.status, &again.json()["id"], &again.json()["requests"]), (201, &first.json()["id"], &json!(2)));
    assert_eq!(network.ledger().await, [again.json()]);
}

#[tokio::test]
async fn twins_with_one_key_are_one_charge() {
    let network = Network::start().await;
    let twins = (0..20).map(|_| charge(&network, Some("k"), body(5, "tok_visa")));
    let answers = futures_util::future::join_all(twins).await;
    assert!(answers.iter().all(|answer| answer.status == 201 && answer.json()["id"] == answers[0].json()["id"]));
    assert_eq!(network.ledger().await.len(), 1);
    assert_eq!(network.ledger().await[0]["requests"], 20);
}

#[tokio::test]
async fn a_key_with_another_body_is_refused() {
    let network = Network::start().await;
    charge(&network, Some("k"), body(5, "tok_visa")).await;
    for other in [body(6, "tok_visa"), body(5, "tok_other")] {
        let answer = charge(&network, Some("k"), other).await;
        assert_eq!((answer.status, &answer.json()["error"]["code"]), (422, &json!("key-reuse")));
    }
    assert_eq!(network.ledger().await.len(), 1);
}

#[tokio::test]
async fn without_keys_every_request_is_a_charge() {
    for (network, key) in [(Network::start().await, None), (Network::without_keys().await, Some("k"))] {
        for _ in 0..2 {
            let answer = charge(&network, key, body(5, "tok_visa")).await;
            assert_eq!((answer.status, &answer.json()["key"]), (201, &Value::Null));
        }
        assert_eq!(network.ledger().await.len(), 2);
        assert_eq!(get(&network, "/charges/by-key/k").await.status, 404);
    }
}

#[tokio::test]
async fn charges_are_found_by_key_and_by_reference() {
    let network = Network::start().await;
    assert_eq!(get(&network, "/charges/by-key/k").await.status, 404);
    assert_eq!(get(&network, "/charges?reference=r-1").await.json()["count"], 0);
    let charged = charge(&network, Some("k"), body(5, "tok_visa")).await.json();
    charge(&network, Some("other"), json!({ "amount": 1, "currency": "USD", "source": "s" }).to_string()).await;
    assert_eq!(get(&network, "/charges/by-key/k").await.json(), charged);
    assert_eq!(get(&network, "/charges?reference=r-1").await.json(), json!({ "count": 1, "data": [charged] }));
    assert_eq!(network.ledger().await.len(), 2);
}

#[tokio::test]
async fn a_declined_key_stays_declined() {
    let network = Network::start().await;
    network.next("refuse").await;
    for (key, source) in [("k", "tok_visa"), ("k", "tok_visa"), ("other", "tok_declined")] {
        let answer = charge(&network, Some(key), body(5, source)).await;
        assert_eq!((answer.status, &answer.json()["status"]), (402, &json!("declined")));
    }
    assert_eq!(charge(&network, Some("new"), body(5, "tok_visa")).await.status, 201);
    let found: Vec<_> = network.ledger().await.iter().map(|charge| charge["status"].clone()).collect();
    assert_eq!(found, ["declined", "declined", "succeeded"]);
}

#[tokio::test]
async fn an_order_is_for_once_for_so_many_or_until_told_otherwise() {
    let network = Network::start().await;
    let statuses = async |count| {
        let mut statuses = Vec::new();
        for _ in 0..count {
            statuses.push(charge(&network, None, body(5, "tok_visa")).await.status);
        }
        statuses
    };
    network.next("fail").await;
    assert_eq!(statuses(2).await, [500, 201]);
    network.next_times("fail", 2).await;
    assert_eq!(statuses(3).await, [500, 500, 201]);
    network.next_times("fail", 0).await;
    assert_eq!(statuses(4).await, [500; 4]);
    network.next("normal").await;
    assert_eq!(statuses(1).await, [201]);
    assert_eq!(network.ledger().await.len(), 3, "a failure is before the charge");
    assert_eq!(network.requests().await, 10);
}

#[tokio::test]
async fn answers_are_cut_or_dropped_after_the_charge() {
    let network = Network::start().await;
    for (number, conduct) in ["cut-answer", "drop-answer"].into_iter().enumerate() {
        network.next(conduct).await;
        let key = format!("k-{number}");
        let mut connection = begin(&network, Some(&key), body(5, "tok_visa")).await;
        connection.try_response().await.expect_err("a whole answer");
        assert_eq!(network.ledger().await.len(), number + 1);
        let again = charge(&network, Some(&key), body(5, "tok_visa")).await;
        assert_eq!((again.status, &again.json()["requests"]), (201, &json!(2)));
    }
}

#[tokio::test]
async fn a_held_answer_is_in_the_ledger_and_gone_with_its_client() {
    let network = Network::start().await;
    network.next_times("hold-answer", 2).await;
    let (one, mut other) = (begin(&network, None, body(5, "a")).await, begin(&network, None, body(6, "b")).await);
    network.holding(2).await;
    assert_eq!(network.ledger().await.len(), 2);
    drop(one);
    network.holding(1).await;
    network.release().await;
    assert_eq!(other.response().await.status, 201);
    network.holding(0).await;
}

#[tokio::test]
async fn a_held_request_charges_when_released_even_without_its_client() {
    let network = Network::start().await;
    network.next("hold-request").await;
    let client = begin(&network, Some("k"), body(5, "tok_visa")).await;
    network.holding(1).await;
    assert_eq!(network.ledger().await.len(), 0);
    drop(client);
    // The duplicate does not wait for the first.
    assert_eq!(charge(&network, Some("k"), body(5, "tok_visa")).await.status, 201);
    network.holding(1).await;
    network.release().await;
    network.heard(2).await;
    assert_eq!(network.ledger().await.len(), 1);
}

#[tokio::test]
async fn a_delayed_charge_is_answered() {
    let network = Network::start().await;
    let order = json!({ "next": "delay", "milliseconds": 30 }).to_string();
    assert_eq!(http::post(network.address(), "/control", &[], order).await.status, 204);
    let start = std::time::Instant::now();
    assert_eq!(charge(&network, None, body(5, "tok_visa")).await.status, 201);
    assert!(start.elapsed() >= std::time::Duration::from_millis(30));
}

#[tokio::test]
async fn a_charge_that_was_answered_survives_a_kill() {
    let network = Network::start().await;
    for number in 0..5 {
        assert_eq!(charge(&network, Some(&format!("k-{number}")), body(5, "tok_visa")).await.status, 201);
    }
    let network = network.away(async {}).await;
    assert_eq!(network.ledger().await.len(), 5);
    kill(network.process).await;
}
