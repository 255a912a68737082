//! Redirects: 307 and 308 keep key and body, others drop the key, and no key goes where it was not meant to.
//! Once over sockets, to see that `reqwest` itself follows none.

use axum::http::Method;
use idem_client::{
    Builder, Error, Key, RefusedRedirect,
    reqwest::{StatusCode, redirect},
};

use crate::{
    breaking::{Act, Breaking},
    stub::{Answer, BODY, PAYMENTS, Script, Seen, answer, at_once, ours, transport},
    support::http::Server,
};

/// Sends a call; its result, and what was seen.
async fn send(
    method: Method,
    builder: Builder,
    answers: impl IntoIterator<Item = Answer>,
) -> (Result<u16, Error>, Vec<Seen>) {
    let script = Script::new(answers);
    let request = script.client(builder).request(method, PAYMENTS).header("authorization", "Bearer t").body(BODY);
    let result = request.header("cookie", "c=1").header("content-type", "application/json").send().await;
    let result = match result {
        Ok(response) => Ok(response.status().as_u16()),
        error => Err(ours(error)),
    };
    (result, script.seen())
}

#[track_caller]
fn refused(result: Result<u16, Error>) -> RefusedRedirect {
    match result {
        Err(Error::RedirectRefused { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn b80_307_and_308_keep_key_and_body() {
    for status in [307, 308] {
        for method in [Method::POST, Method::PATCH] {
            for target in ["/v2/payments?a=1", "http://bank.test:80/v2/payments?a=1", "//bank.test/v2/payments?a=1"] {
                let (result, seen) = send(method.clone(), at_once(), [Answer::to(status, target), answer(201)]).await;
                assert_eq!((result.unwrap(), seen.len()), (201, 2));
                assert_eq!(seen[1].url.as_str(), "http://bank.test/v2/payments?a=1");
                assert_eq!((&seen[1].method, &seen[1].headers), (&method, &seen[0].headers));
                assert_eq!((seen[1].key(), &seen[1].body), (seen[0].key(), &seen[0].body));
            }
        }
    }
}

#[tokio::test]
async fn b80_others_go_on_as_a_get_without_key_and_body() {
    for status in [301, 302, 303] {
        let (result, seen) = send(Method::POST, at_once(), [Answer::to(status, "/done"), answer(200)]).await;
        assert_eq!((result.unwrap(), seen.len()), (200, 2));
        assert_eq!((&seen[1].method, seen[1].has_key(), seen[1].body.len()), (&Method::GET, false, 0));
        assert!(!seen[1].headers.contains_key("content-type") && seen[1].headers.contains_key("authorization"));
    }
    let (result, seen) = send(Method::PATCH, at_once(), [Answer::to(303, "/done"), answer(200)]).await;
    assert_eq!((result.unwrap(), &seen[1].method, seen[1].has_key()), (200, &Method::GET, false));
}

#[tokio::test]
async fn b80_a_write_is_not_sent_on_without_its_key() {
    for status in [301, 302] {
        let (result, seen) = send(Method::PATCH, at_once(), [Answer::to(status, "/v2"), answer(200)]).await;
        assert_eq!((refused(result), seen.len()), (RefusedRedirect::KeyLost, 1));
    }
}

#[tokio::test]
async fn b80_the_key_goes_to_no_other_origin() {
    for target in ["https://bank.test/v2", "http://bank.test:8080/v2", "http://evil.test/v2", "http://a.bank.test/"] {
        let (result, seen) = send(Method::POST, at_once(), [Answer::to(307, target), answer(201)]).await;
        assert_eq!(seen.len(), 1, "{target}");
        let text = result.as_ref().unwrap_err().to_string();
        assert!(text.contains("allow_origin") && text.contains("sha256:"), "{text}");
        assert_eq!(refused(result), RefusedRedirect::OtherOrigin);
        // As a GET it may go on, as bare as any.
        let (_, seen) = send(Method::POST, at_once(), [Answer::to(303, target), answer(200)]).await;
        assert!(["idempotency-key", "authorization", "cookie"].iter().all(|name| !seen[1].headers.contains_key(*name)));
    }
}

#[tokio::test]
async fn b80_an_allowed_origin_gets_key_and_body_and_no_credentials() {
    let allowing = || at_once().allow_origin("https://eu.bank.test/whatever".parse().unwrap());
    let (result, seen) = send(Method::POST, allowing(), [Answer::to(308, "https://eu.bank.test/p"), answer(201)]).await;
    assert_eq!((result.unwrap(), seen[1].key(), &seen[1].body), (201, seen[0].key(), &seen[0].body));
    assert!(!seen[1].headers.contains_key("authorization") && !seen[1].headers.contains_key("cookie"));
    let (result, _) = send(Method::POST, allowing(), [Answer::to(308, "http://eu.bank.test/p"), answer(201)]).await;
    assert_eq!(refused(result), RefusedRedirect::OtherOrigin);
    // And from there back home, but not on to a third.
    let there = Answer::to(307, "https://eu.bank.test/p");
    let (result, seen) = send(Method::POST, allowing(), [there.clone(), Answer::to(307, PAYMENTS), answer(201)]).await;
    assert_eq!((result.unwrap(), seen[2].key()), (201, seen[0].key()));
    let (result, seen) = send(Method::POST, allowing(), [there, Answer::to(307, "https://x.test"), answer(201)]).await;
    assert_eq!((refused(result), seen.len()), (RefusedRedirect::OtherOrigin, 2));
}

#[tokio::test(start_paused = true)]
async fn b80_a_retry_begins_where_the_call_began() {
    let answers = [Answer::to(307, "/v2"), answer(503), Answer::to(307, "/v2"), answer(201)];
    let (result, seen) = send(Method::POST, at_once(), answers).await;
    let paths: Vec<_> = seen.iter().map(|request| request.url.path().to_owned()).collect();
    assert_eq!((result.unwrap(), paths), (201, ["/payments", "/v2", "/payments", "/v2"].map(str::to_owned).to_vec()));
    assert!(seen.iter().all(|request| request.key() == seen[0].key()));
}

#[tokio::test]
async fn b80_redirects_are_counted() {
    let (result, seen) = send(Method::POST, at_once(), [Answer::to(307, "/again")]).await;
    assert_eq!((refused(result), seen.len()), (RefusedRedirect::TooMany, 11));
    let (result, seen) = send(Method::POST, at_once().redirects(0), [Answer::to(307, "/again")]).await;
    assert_eq!((result.unwrap(), seen.len()), (307, 1));
    let (result, seen) = send(Method::GET, at_once(), [Answer::to(302, "/again")]).await;
    assert!(matches!(result, Err(Error::RedirectRefused { key: None, status: StatusCode::FOUND, .. })));
    assert_eq!(seen.len(), 11);
}

#[tokio::test]
async fn what_leads_nowhere_is_the_answer() {
    for nowhere in
        [answer(307), Answer::to(307, "http://[/"), Answer::to(307, "ftp://bank.test/"), Answer::to(304, "/")]
    {
        let (result, seen) = send(Method::POST, at_once(), [nowhere.clone(), answer(201)]).await;
        assert_eq!((result.unwrap(), seen.len()), (nowhere.status, 1));
    }
}

#[tokio::test]
async fn unprotected_requests_follow_as_ever() {
    let (result, seen) =
        send(Method::GET, at_once(), [Answer::to(301, "/b"), Answer::to(307, "/c"), answer(200)]).await;
    assert_eq!((result.unwrap(), seen.len(), seen[2].url.path()), (200, 3, "/c"));
    let (result, seen) = send(Method::PUT, at_once(), [Answer::to(302, "/b"), answer(200)]).await;
    assert_eq!((result.unwrap(), &seen[1].method, &seen[1].body), (200, &Method::PUT, &seen[0].body));
    // A caller's header on a method without keys is no reason to show it to strangers.
    let script = Script::new([Answer::to(307, "http://evil.test"), answer(200)]);
    script.client(at_once()).put(PAYMENTS).header("idempotency-key", "k").send().await.unwrap();
    assert_eq!((script.seen()[0].key(), script.seen()[1].has_key()), ("k".to_owned(), false));
}

#[tokio::test]
async fn b80_over_sockets_reqwest_does_not_take_the_key_along() {
    use axum::{Router, response::Redirect, routing::post};

    let stranger = Breaking::start([Act::Answer(201)]).await;
    let target = stranger.url("/");
    let server =
        Server::start(Router::new().route("/payments", post(async move || Redirect::temporary(&target)))).await;
    let url = format!("http://{}/payments", server.address());
    // Whatever policy the application's transport had.
    let client = at_once().build(transport().redirect(redirect::Policy::limited(5))).unwrap();
    let result = client.post(url).with_extension(Key::new("order-17").unwrap()).body(BODY).send().await;
    assert!(matches!(ours(result), Error::RedirectRefused { reason: RefusedRedirect::OtherOrigin, .. }));
    assert!(stranger.seen().is_empty());
}
