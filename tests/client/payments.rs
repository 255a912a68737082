//! The example `payments` behind a proxy that cuts connections: after any number of cuts, one payment and one response.
//! The database is behind another proxy, which loses the acknowledgement of COMMIT.

use std::{collections::HashSet, time::Duration};

use idem_client::{
    Builder, Call, Error, Key, KeyQuoting,
    reqwest::Response,
    reqwest_middleware::{ClientWithMiddleware, RequestBuilder},
};
use serde_json::{Value, json};

use crate::{
    app::{Service, order},
    cutting::{Cut, Cutting},
    journal::Disk,
    seen::rows,
    stub::{at_once, ours, transport},
    support::{
        databases::{postgres, sqlite},
        http, keys,
        process::{Process, payments},
        proxy::{self, Proxy},
        soon,
    },
};

const MOMENT: Duration = Duration::from_millis(5);

/// Retries after a moment, whatever the server asks for: what is tested here is not the wait.
fn builder() -> Builder {
    at_once().max_retry_after(MOMENT)
}

fn client() -> ClientWithMiddleware {
    builder().build(transport()).unwrap()
}

fn payment(client: &ClientWithMiddleware, url: String, source: &str) -> RequestBuilder {
    let body = json!({ "amount": 1999, "currency": "USD", "source": source }).to_string();
    client.post(url).bearer_auth("ada").header("content-type", "application/json").body(body)
}

async fn pay(client: &ClientWithMiddleware, cutting: &Cutting, source: &str) -> Response {
    soon("an answer", payment(client, cutting.url("/payments"), source).send()).await.unwrap()
}

fn replayed(response: &Response) -> bool {
    response.headers().contains_key("idempotent-replayed")
}

/// Ada's payments, and how many handlers this process has begun.
async fn made(process: &Process) -> (Value, Value) {
    let list = http::get(process.address(), "/payments", &[("authorization", "Bearer ada")]).await.json();
    let runs = http::get(process.address(), "/runs", &[]).await.json();
    (list["count"].clone(), runs["runs"].clone())
}

#[tokio::test]
async fn b80_one_payment_wherever_the_connection_is_cut() {
    let database = sqlite();
    let process = payments(&database.url()).await;
    let cuts = [
        (&[Cut::BeforeRequest][..], false),
        (&[Cut::BeforeAnswer], true),
        (&[Cut::WithinAnswer], true),
        (&[Cut::BeforeRequest, Cut::BeforeRequest, Cut::BeforeAnswer, Cut::WithinAnswer, Cut::BeforeAnswer], true),
    ];
    for (number, (cuts, is_replay)) in (1..).zip(cuts) {
        let cutting = Cutting::start(process.address(), cuts.iter().copied()).await;
        let response = pay(&client(), &cutting, "tok_visa").await;
        assert_eq!((response.status().as_u16(), replayed(&response)), (201, is_replay), "{cuts:?}");
        let payment: Value = serde_json::from_slice(&response.bytes().await.unwrap()).unwrap();
        assert_eq!(payment["amount"], 1999);
        assert!(cutting.is_through());
        assert_eq!(made(&process).await, (json!(number), json!(number)), "{cuts:?}");
    }
}

#[tokio::test]
async fn b80_one_payment_while_the_first_attempt_is_running_still() {
    let database = sqlite();
    let process = payments(&database.url()).await;
    // The connection is cut as soon as the request is through; 409 until the first attempt is done.
    let cutting = Cutting::start(process.address(), [Cut::AfterRequest]).await;
    assert_eq!(pay(&client(), &cutting, "tok_slow_300").await.status(), 201);
    assert_eq!(made(&process).await, (json!(1), json!(1)));
    // The same, the client itself having lost patience.
    let impatient = builder().attempt_timeout(Duration::from_millis(100)).build(transport()).unwrap();
    let response = pay(&impatient, &cutting, "tok_slow_400").await;
    assert_eq!((response.status().as_u16(), replayed(&response)), (201, true));
    assert_eq!(made(&process).await, (json!(2), json!(2)));
}

#[tokio::test]
async fn b80_what_the_server_has_stored_is_final() {
    let database = sqlite();
    let process = payments(&database.url()).await;
    let cutting = Cutting::start(process.address(), []).await;
    // A failure and a panic: retried once, and then known to be stored.
    for (source, status) in [("tok_error", 500), ("tok_panic", 500)] {
        let response = pay(&client(), &cutting, source).await;
        assert_eq!((response.status().as_u16(), replayed(&response)), (status, true), "{source}");
    }
    let response = pay(&client(), &cutting, "tok_declined").await;
    assert_eq!((response.status().as_u16(), replayed(&response)), (402, false));
    assert_eq!(made(&process).await, (json!(0), json!(3)));
    // Another request under a used key.
    let key = response.extensions().get::<Key>().unwrap().clone();
    let reuse = payment(&client(), cutting.url("/payments"), "tok_visa").with_extension(key).send().await.unwrap();
    assert_eq!((reuse.status().as_u16(), made(&process).await.0), (422, json!(0)));
}

#[tokio::test]
async fn b80_one_effect_when_the_database_or_its_answer_to_commit_is_lost() {
    let database = postgres().await;
    let proxy = Proxy::start(&database).await;
    let pool = database.pool_with(2, proxy.options(&database)).await;
    let service = Service::start_with(&database, pool, |builder| builder).await;
    for (mark, cut, statement) in [
        ("record", proxy::Cut::Before, "INSERT INTO idem_records AS r"),
        ("before", proxy::Cut::Before, "COMMIT"),
        ("after", proxy::Cut::After, "COMMIT"),
    ] {
        let lost = proxy.cut(cut, statement);
        let url = format!("http://{}/act", service.address());
        let request = client().post(url).header("x-account", "ada").header("content-type", "application/json");
        let response = soon("an answer", request.body(order(mark, "write")).send()).await.unwrap();
        lost.sprung().await;
        assert_eq!((response.status().as_u16(), replayed(&response)), (201, cut == proxy::Cut::After), "{mark}");
        assert_eq!(rows(&database, mark).await, 1, "{mark}");
    }
}

/// The server runs the same table.
#[tokio::test]
async fn b78_client_and_server_take_the_same_keys() {
    let database = sqlite();
    let process = payments(&database.url()).await;
    let client = client();
    let quoting = builder().key_quoting(KeyQuoting::Quoted).build(transport()).unwrap();
    let url = format!("http://{}/payments", process.address());
    let mut expected = HashSet::new();
    for (line, key) in keys::lines() {
        let by_line = payment(&client, url.clone(), "tok_visa").header("idempotency-key", &line).send().await;
        let Some(key) = key else {
            assert!(matches!(ours(by_line), Error::KeyMalformed), "{line:?}");
            continue;
        };
        let response = by_line.unwrap();
        assert_eq!((response.status().as_u16(), replayed(&response)), (201, !expected.insert(key.clone())), "{line:?}");
        assert_eq!(response.extensions().get::<Key>().unwrap().as_str(), key);
        for client in [&client, &quoting] {
            let chosen = payment(client, url.clone(), "tok_visa").with_extension(Key::new(&*key).unwrap());
            assert!(replayed(&chosen.send().await.unwrap()), "{line:?}");
        }
    }
    for characters in keys::not_keys() {
        assert!(matches!(Key::new(&*characters), Err(Error::KeyMalformed)), "{characters:?}");
    }
    assert_eq!(made(&process).await, (json!(expected.len()), json!(expected.len())));
}

#[tokio::test]
async fn b78_one_payment_when_client_and_server_die_and_the_call_is_resumed() {
    let (database, disk) = (sqlite(), Disk::default());
    let first = payments(&database.url()).await;
    let cutting = Cutting::start(first.address(), [Cut::BeforeAnswer]).await;
    // The client dies once its payment is made; it never gets the response.
    let patient = at_once().journal(disk.clone()).max_retry_after(MOMENT).build(transport()).unwrap();
    let dying = tokio::spawn(payment(&patient, cutting.url("/payments"), "tok_slow_100").send());
    let begun = async {
        while made(&first).await.1 != json!(1) {
            tokio::task::yield_now().await;
        }
    };
    soon("the payment to begin", begun).await;
    dying.abort();
    drop(dying);
    let done = async {
        while made(&first).await.0 != json!(1) {
            tokio::task::yield_now().await;
        }
    };
    soon("the payment to be made", done).await;
    first.signal("KILL").await;

    let second = payments(&database.url()).await;
    cutting.lead_to(second.address());
    let kept = disk.kept();
    let [bytes] = &kept[..] else { panic!("{} calls", kept.len()) };
    let restarted = builder().journal(disk.clone()).build(transport()).unwrap();
    let resumed = Call::decode(bytes).unwrap().resume(&restarted).bearer_auth("ada").send();
    let response = soon("an answer", resumed).await.unwrap();
    assert_eq!((response.status().as_u16(), replayed(&response)), (201, true));
    assert_eq!(made(&second).await, (json!(1), json!(0)));
    assert!(disk.kept().is_empty());
}
