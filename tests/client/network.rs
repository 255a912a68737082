//! Real sockets: connections that are refused, reset before and after the body, broken in the answer, or silent.
//! Whatever happens to them, the server sees the same bytes under the same key.

use std::{collections::HashSet, net::TcpListener, time::Duration};

use idem_client::{
    Failure, Key, reqwest_middleware::ClientWithMiddleware, retry_policies::policies::ExponentialBackoff,
};

use crate::{
    breaking::{Act, Breaking},
    stub::{BODY, at_once, gave_up, transport},
    support::soon,
};

fn client() -> ClientWithMiddleware {
    at_once().build(transport()).unwrap()
}

/// The bytes of each request that was read whole: all the same, and the key.
#[track_caller]
fn assert_same(server: &Breaking, requests: usize) {
    let seen = server.seen();
    assert_eq!(seen.len(), requests);
    let heads: HashSet<_> = seen.iter().map(|(head, _)| head).collect();
    assert_eq!(heads.len(), 1, "{heads:?}");
    assert!(heads.iter().all(|head| head.matches("idempotency-key: order-17\r\n").count() == 1));
    assert_eq!(seen.last().unwrap().1, BODY.as_bytes());
}

async fn post(client: &ClientWithMiddleware, server: &Breaking) -> (u16, String) {
    let request = client.post(server.url("/payments")).with_extension(Key::new("order-17").unwrap()).body(BODY);
    let response = soon("an answer", request.send()).await.unwrap();
    assert_eq!(response.url().as_str(), server.url("/payments"));
    (response.status().as_u16(), response.text().await.unwrap())
}

#[tokio::test]
async fn b80_resets_before_and_after_the_body_are_retried() {
    let server =
        Breaking::start([Act::ResetBeforeBody, Act::ResetAfterBody, Act::ResetAfterBody, Act::Answer(201)]).await;
    assert_eq!(post(&client(), &server).await, (201, "done".to_owned()));
    assert_same(&server, 4);
    // Those that were read whole were the same to the last byte.
    for (_, body) in &server.seen()[1..] {
        assert_eq!(body, BODY.as_bytes());
    }
}

#[tokio::test]
async fn b80_an_answer_that_breaks_off_is_retried() {
    let server = Breaking::start([Act::Half(201), Act::Half(201), Act::Answer(201)]).await;
    assert_eq!(post(&client(), &server).await, (201, "done".to_owned()));
    assert_same(&server, 3);
}

#[tokio::test]
async fn b80_an_error_that_breaks_off_or_stalls_is_in_the_error_as_far_as_it_came() {
    let broken = Breaking::start([Act::Half(503)]).await;
    let once = ExponentialBackoff::builder().build_with_max_retries(0);
    let client = at_once().backoff(once).attempt_timeout(Duration::from_millis(500)).build(transport()).unwrap();
    let error = gave_up(client.post(broken.url("/")).body(BODY).send().await);
    assert!(matches!(error.last(), Failure::Network(_)), "{error}");
    let response = error.response().unwrap();
    assert_eq!((response.status().as_u16(), &response.body()[..], response.is_truncated()), (503, &b"half"[..], true));

    let stalled = Breaking::start([Act::Stall(429)]).await;
    let error = gave_up(soon("the end", client.post(stalled.url("/")).body(BODY).send()).await);
    assert!(matches!(error.last(), Failure::TimedOut), "{error}");
    let response = error.response().unwrap();
    assert_eq!((response.status().as_u16(), response.is_truncated()), (429, true));
    assert_eq!(response.headers()["content-length"], "8");
}

#[tokio::test]
async fn b80_the_last_response_may_be_older_than_the_last_failure() {
    let server = Breaking::start([Act::Answer(503), Act::ResetAfterBody]).await;
    let once = ExponentialBackoff::builder().build_with_max_retries(1);
    let client = at_once().backoff(once).build(transport()).unwrap();
    let error = gave_up(client.post(server.url("/")).body(BODY).send().await);
    assert!(matches!(error.last(), Failure::Network(_)), "{error}");
    assert_eq!(error.response().map(|response| &response.body()[..]), Some(&b"done"[..]));
}

#[tokio::test]
async fn b80_past_what_is_read_ahead_the_answers_end_is_the_callers() {
    let server = Breaking::start([Act::Half(201), Act::Answer(201)]).await;
    let client = at_once().read_ahead(2).build(transport()).unwrap();
    let response = client.post(server.url("/")).body(BODY).send().await.unwrap();
    assert_eq!((response.status().as_u16(), server.seen().len()), (201, 1));
    assert!(response.bytes().await.is_err());
    // Nothing is lost where streaming begins.
    let response = client.post(server.url("/")).body(BODY).send().await.unwrap();
    assert_eq!(response.text().await.unwrap(), "done");
    let client = at_once().read_ahead(0).build(transport()).unwrap();
    assert_eq!(client.post(server.url("/")).body(BODY).send().await.unwrap().text().await.unwrap(), "done");
}

#[tokio::test]
async fn b80_a_silent_server_costs_one_attempt() {
    let server = Breaking::start([Act::Silence, Act::Answer(201)]).await;
    let client = at_once().attempt_timeout(Duration::from_secs(1)).build(transport()).unwrap();
    assert_eq!(post(&client, &server).await, (201, "done".to_owned()));
    assert_same(&server, 2);
}

#[tokio::test]
async fn b80_the_budget_ends_a_silent_attempt() {
    let server = Breaking::start([Act::Silence]).await;
    let client = at_once().budget(Duration::from_millis(200)).build(transport()).unwrap();
    let gave_up = gave_up(soon("the end", client.post(server.url("/")).send()).await);
    assert!(matches!(gave_up.last(), Failure::TimedOut), "{gave_up}");
    assert_eq!(gave_up.attempts(), 1);
}

#[tokio::test]
async fn b80_the_last_error_is_the_networks_without_the_url() {
    // A port that nobody listens on.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let client = at_once().budget(Duration::from_millis(50)).build(transport()).unwrap();
    let error = gave_up(client.post(format!("http://{address}/?token=s3cret")).send().await);
    assert!(matches!(error.last(), Failure::Network(error) if error.is_connect()), "{error}");
    assert!(error.response().is_none());
    assert!(error.attempts() > 1 && std::error::Error::source(&*error).is_some());
    assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
}
