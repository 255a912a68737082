//! The numbered cases about calls to other systems: the same key to them from every attempt, one charge, whatever fails.
//! Each runs on both databases, except those that need a proxy in front of PostgreSQL.

use futures_util::future::join_all;
use idem_tests::{
    databases::{postgres, sqlite},
    process::Process,
    proxy::{Cut, Proxy},
};

use super::harness::{
    Ask, CHARGE, Decided, Network, app, app_command, kill, one_charge, quiet_app, replayed, rows, runs, through,
};

/// A declined card is a response: stored for its request, not replayed to another request, no obstacle to a new key.
async fn b76_declined(url: &str) {
    let network = Network::start().await;
    let app = app(url, &network.url()).await;
    let declined = Ask { source: "tok_declined", ..CHARGE };
    let first = declined.answer(&app).await;
    assert_eq!((first.status, &first.json()["error"]["code"]), (402, &"card-declined".into()));
    let again = declined.answer(&app).await;
    assert_eq!((again.status, replayed(&again), &again.body), (402, true, &first.body));
    let corrected = CHARGE.answer(&app).await;
    assert_eq!((corrected.status, &corrected.json()["code"]), (422, &"idempotency-key-reuse".into()));
    assert!(corrected.json()["detail"].as_str().expect("a detail").contains("new key"), "{}", corrected.text());
    let new = Ask { key: "order-2", ..CHARGE }.answer(&app).await;
    assert_eq!(new.status, 201);

    let ledger = network.ledger().await;
    assert_eq!((ledger.len(), network.requests().await, runs(&app).await), (2, 2, 2));
    assert_ne!(ledger[0]["key"], ledger[1]["key"]);
    assert_eq!(rows(&app).await, [new.json()]);
}

#[tokio::test]
async fn b76_a_declined_card_on_postgres() {
    b76_declined(&postgres().await.url()).await;
}

#[tokio::test]
async fn b76_a_declined_card_on_sqlite() {
    let database = sqlite();
    b76_declined(&database.url()).await;
}

/// A decline whose attempt died is recovered as the decline that it was.
#[tokio::test]
async fn b76_a_decline_that_was_not_recorded_stays_a_decline() {
    let (network, database) = (Network::start().await, sqlite());
    let declined = Ask { source: "tok_declined", ..CHARGE };
    let dead = app(&database.url(), &network.url()).await;
    network.next("hold-answer").await;
    // Held after it is declined: `hold-answer` leaves the card to the network.
    let _client = declined.begin(&dead).await;
    network.holding(1).await;
    kill(dead).await;
    let app = app(&database.url(), &network.url()).await;
    let answer = declined.decided(&app).await;
    assert_eq!((answer.status, replayed(&answer)), (402, true), "{}", answer.text());
    assert_eq!((runs(&app).await, rows(&app).await.len(), network.requests().await), (0, 0, 1));
}

/// The database fails once after the call. The network sees one key, however often it is asked, and charges once.
async fn b77_after_the_call(cut: Cut, text: &str) {
    let (network, database) = (Network::start().await, postgres().await);
    let proxy = Proxy::start(&database).await;
    // A lost COMMIT leaves no stalled attempt, and recovery's own COMMIT must not meet the trap.
    let app = match text {
        "COMMIT" => quiet_app(&proxy, &database, &network.url()).await,
        _ => app(&through(&proxy, &database), &network.url()).await,
    };
    network.next("hold-answer").await;
    let mut client = CHARGE.begin(&app).await;
    network.holding(1).await;
    let trap = proxy.cut(cut, text);
    network.release().await;
    trap.sprung().await;
    let failed = client.response().await;
    assert!(failed.status >= 500, "{}", failed.text());

    let answer = CHARGE.decided(&app).await;
    assert_eq!((answer.status, replayed(&answer)), (201, true), "{}", answer.text());
    let ledger = network.ledger().await;
    assert_eq!((ledger.len(), rows(&app).await.len(), runs(&app).await), (1, 1, 1), "{}", app.output());
    assert_eq!(CHARGE.answer(&app).await.body, answer.body);
}

#[tokio::test]
async fn b77_the_database_fails_in_the_write_after_the_call() {
    b77_after_the_call(Cut::Before, "INSERT INTO charges").await;
}

#[tokio::test]
async fn b77_the_database_fails_before_the_commit_after_the_call() {
    b77_after_the_call(Cut::Before, "UPDATE idem_records SET format").await;
}

#[tokio::test]
async fn b77_the_commit_after_the_call_is_not_acknowledged() {
    b77_after_the_call(Cut::After, "COMMIT").await;
}

/// A response that breaks off is requested again within the attempt: the network sees one key twice.
async fn b77_broken_answers(url: &str) {
    let network = Network::start().await;
    let app = app(url, &network.url()).await;
    for (number, conduct) in ["cut-answer", "drop-answer", "fail"].into_iter().enumerate() {
        network.next_times(conduct, 2).await;
        let key = format!("order-{number}");
        let answer = Ask { key: &key, ..CHARGE }.answer(&app).await;
        assert_eq!(answer.status, 201, "{conduct}: {}", answer.text());
        let ledger = network.ledger().await;
        assert_eq!(ledger.len(), number + 1);
        assert_eq!(ledger[number]["requests"], if conduct == "fail" { 1 } else { 3 });
    }
    assert_eq!((network.requests().await, runs(&app).await, rows(&app).await.len()), (9, 3, 3));
}

#[tokio::test]
async fn b77_broken_answers_are_one_charge_on_postgres() {
    b77_broken_answers(&postgres().await.url()).await;
}

#[tokio::test]
async fn b77_broken_answers_are_one_charge_on_sqlite() {
    let database = sqlite();
    b77_broken_answers(&database.url()).await;
}

/// The network does not respond, and the client's response says so. Recovery finds the charge while the app still runs.
async fn b77_no_answer(url: &str) {
    let network = Network::start().await;
    let app = app(url, &network.url()).await;
    network.next_times("drop-answer", 3).await;
    let unclear = CHARGE.answer(&app).await;
    assert_eq!((unclear.status, &unclear.json()["error"]["code"]), (502, &"card-network".into()));
    let answer = CHARGE.decided(&app).await;
    assert_eq!((answer.status, replayed(&answer)), (201, true), "{}", answer.text());
    assert_eq!((network.ledger().await.len(), rows(&app).await.len(), runs(&app).await), (1, 1, 1));
}

#[tokio::test]
async fn b77_no_answer_is_left_to_recovery_on_postgres() {
    b77_no_answer(&postgres().await.url()).await;
}

#[tokio::test]
async fn b77_no_answer_is_left_to_recovery_on_sqlite() {
    let database = sqlite();
    b77_no_answer(&database.url()).await;
}

/// Twice as many requests as the pool has connections, all inside a slow call: none of them holds a connection or a
/// transaction, so nobody is turned away, and the server's limit for idle transactions has nothing to end.
#[tokio::test]
async fn b50_a_slow_network_holds_no_connection() {
    let (network, database) = (Network::start().await, postgres().await);
    database.set("idle_in_transaction_session_timeout", "100ms").await;
    let app = app(&database.url(), &network.url()).await;
    network.next_times("hold-answer", 20).await;
    let keys: Vec<_> = (0..20).map(|number| format!("order-{number}")).collect();
    let clients = join_all(keys.iter().map(|key| Ask { key, ..CHARGE }.begin(&app))).await;
    network.holding(20).await;
    let idle = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'";
    let idle: i64 = sqlx::query_scalar(idle).fetch_one(&mut database.connect().await).await.expect("a count");
    assert_eq!(idle, 0);
    network.release().await;
    for mut client in clients {
        assert_eq!(client.response().await.status, 201);
    }
    assert_eq!((network.ledger().await.len(), rows(&app).await.len()), (20, 20));
}

/// Recovery frees the key; the retry runs with the stalled attempt's step key. The network makes one charge of both.
async fn b50_the_same_key_again(url: &str) {
    let network = Network::start().await;
    let dead = app(url, &network.url()).await;
    network.next("hold-request").await;
    let _client = CHARGE.begin(&dead).await;
    network.holding(1).await;
    kill(dead).await;
    let app = app(url, &network.url()).await;
    one_charge(&network, &app, CHARGE, Decided::Run).await;
    network.release().await;
    network.heard(2).await;
    assert_eq!(network.ledger().await.len(), 1);
}

#[tokio::test]
async fn b50_a_retry_calls_with_the_same_key_on_postgres() {
    b50_the_same_key_again(&postgres().await.url()).await;
}

#[tokio::test]
async fn b50_a_retry_calls_with_the_same_key_on_sqlite() {
    let database = sqlite();
    b50_the_same_key_again(&database.url()).await;
}

/// A network that cannot be reached has charged nobody: the key is free at once.
#[tokio::test]
async fn nothing_sent_frees_the_key() {
    let (network, database) = (Network::start().await, sqlite());
    let app = app(&database.url(), &network.url()).await;
    let network = network
        .away(async {
            for _ in 0..2 {
                let answer = CHARGE.answer(&app).await;
                assert_eq!((answer.status, replayed(&answer)), (503, false), "{}", answer.text());
                assert!(answer.header("retry-after").is_some());
            }
        })
        .await;
    let answer = CHARGE.answer(&app).await;
    assert_eq!((answer.status, replayed(&answer), runs(&app).await), (201, false, 3));
    assert_eq!(network.ledger().await.len(), 1);
}

/// Recovery that finds the network away learns nothing, decides nothing, and asks again.
#[tokio::test]
async fn a_network_that_is_away_decides_nothing() {
    let (network, database) = (Network::start().await, sqlite());
    let dead = app(&database.url(), &network.url()).await;
    network.next("hold-answer").await;
    let _client = CHARGE.begin(&dead).await;
    network.holding(1).await;
    kill(dead).await;
    let mut command = app_command(&database.url(), &network.url());
    command.env("RECOVER_EVERY", "100");
    let app = Process::start(command).await;
    let network = network
        .away(async {
            // It says so in its log, which is how an operator learns of it.
            while !app.output().contains("the lookup at the card network failed") {
                assert_eq!(CHARGE.answer(&app).await.status, 409);
            }
            assert_eq!(CHARGE.answer(&app).await.status, 409);
        })
        .await;
    one_charge(&network, &app, CHARGE, Decided::Replay).await;
}
