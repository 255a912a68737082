//! One key a call: made before the first attempt or the caller's, the same on every attempt, never another call's.
//! And what is refused before anything is sent.

use std::collections::HashSet;

use axum::http::Extensions;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http_body::Frame;
use http_body_util::StreamBody;
use idem_client::{
    Builder, Error, Key, KeyQuoting,
    reqwest::{Body, Method, Request},
    reqwest_middleware::RequestBuilder,
};

use crate::stub::{Answer, BODY, PAYMENTS, Script, answer, at_once, in_progress, ours};

fn twice_then_done() -> Script {
    Script::new([answer(503), in_progress(), answer(201)])
}

fn keys(script: &Script) -> Vec<String> {
    script.seen().iter().map(crate::stub::Seen::key).collect()
}

#[tokio::test(start_paused = true)]
async fn b78_a_made_key_is_there_from_the_first_attempt_and_the_same_on_all() {
    let script = twice_then_done();
    let response = script.client(Builder::new()).post(PAYMENTS).body(BODY).send().await.unwrap();
    let keys = keys(&script);
    assert_eq!((keys.len(), keys.iter().collect::<HashSet<_>>().len(), keys[0].len()), (3, 1, 36));
    assert_eq!(response.extensions().get::<Key>().unwrap().as_str(), keys[0]);
}

#[tokio::test(start_paused = true)]
async fn b78_attempts_are_equal_in_every_byte() {
    let script = twice_then_done();
    let request =
        script.client(Builder::new()).patch(format!("{PAYMENTS}/1?a=%20b")).header("x-tenant", "7").body(BODY);
    request.send().await.unwrap();
    let seen = script.seen();
    assert_eq!(seen.len(), 3);
    for attempt in &seen {
        assert_eq!((&attempt.method, &attempt.url), (&Method::PATCH, &seen[0].url));
        assert_eq!((&attempt.headers, &attempt.body[..]), (&seen[0].headers, BODY.as_bytes()));
    }
}

#[tokio::test(start_paused = true)]
async fn b78_the_callers_key_is_on_all_attempts() {
    let as_header = |request: RequestBuilder| request.header("Idempotency-Key", "\"order-17\"");
    let as_extension = |request: RequestBuilder| request.with_extension(Key::new("order-17").unwrap());
    for (give, line) in [
        (&as_header as &dyn Fn(RequestBuilder) -> RequestBuilder, "\"order-17\""),
        (&as_extension, "order-17"),
        (&|request| as_header(as_extension(request)), "\"order-17\""),
    ] {
        let script = twice_then_done();
        give(script.client(Builder::new()).post(PAYMENTS).body(BODY)).send().await.unwrap();
        assert_eq!(keys(&script), [line; 3]);
    }
}

#[tokio::test(start_paused = true)]
async fn b78_keys_can_be_quoted() {
    let script = twice_then_done();
    script.client(Builder::new().key_quoting(KeyQuoting::Quoted)).post(PAYMENTS).send().await.unwrap();
    let keys = keys(&script);
    assert!(keys[0].starts_with('"') && keys[0].ends_with('"') && keys[0].len() == 38, "{keys:?}");
    assert_eq!(keys[0], keys[2]);
}

#[tokio::test]
async fn b78_no_call_gets_the_key_of_another() {
    let script = Script::new([answer(201)]);
    let client = script.client(Builder::new());
    client.post(PAYMENTS).body(BODY).with_extension(Key::new("mine").unwrap()).send().await.unwrap();
    for client in [client.clone(), client.clone(), client.clone()] {
        client.post(PAYMENTS).body(BODY).send().await.unwrap();
        client.patch(PAYMENTS).body(BODY).send().await.unwrap();
    }
    let both = tokio::join!(client.post(PAYMENTS).body(BODY).send(), client.post(PAYMENTS).body(BODY).send());
    assert!(both.0.is_ok() && both.1.is_ok());
    assert_eq!(keys(&script).into_iter().collect::<HashSet<_>>().len(), 9);
}

#[tokio::test]
async fn b78_extensions_that_are_used_again_carry_no_key_along() {
    let script = Script::new([answer(201)]);
    let client = script.client(Builder::new());
    let mut extensions = Extensions::new();
    extensions.insert(Key::new("mine").unwrap());
    for _ in 0..3 {
        let request = Request::new(Method::POST, PAYMENTS.parse().unwrap());
        client.execute_with_extensions(request, &mut extensions).await.unwrap();
    }
    let keys = keys(&script);
    assert_eq!(keys[0], "mine");
    assert_eq!(keys.into_iter().collect::<HashSet<_>>().len(), 3);
}

#[tokio::test]
async fn b07_other_methods_get_no_key_and_one_attempt() {
    for method in [Method::GET, Method::HEAD, Method::PUT, Method::DELETE, Method::OPTIONS] {
        let script = Script::new([answer(503)]);
        let client = script.client(Builder::new());
        assert_eq!(client.request(method.clone(), PAYMENTS).send().await.unwrap().status(), 503);
        assert_eq!((script.seen().len(), script.seen()[0].has_key()), (1, false), "{method}");
        // A key for it is a mistake; a header is the caller's own business.
        let keyed = client.request(method.clone(), PAYMENTS).with_extension(Key::random()).send().await;
        assert!(matches!(ours(keyed), Error::NotProtected { method: named } if named == method));
        client.request(method, PAYMENTS).header("idempotency-key", "k").send().await.unwrap();
        assert_eq!((script.seen().len(), script.seen()[1].key()), (2, "k".to_owned()));
    }
}

#[tokio::test(start_paused = true)]
async fn which_methods_get_keys_can_be_chosen() {
    let script = twice_then_done();
    script.client(Builder::new().methods([Method::PUT])).put(PAYMENTS).body(BODY).send().await.unwrap();
    assert_eq!(keys(&script).len(), 3);
    let script = Script::new([answer(503)]);
    script.client(Builder::new().methods([Method::PUT])).post(PAYMENTS).body(BODY).send().await.unwrap();
    assert_eq!((script.seen().len(), script.seen()[0].has_key()), (1, false));
}

#[tokio::test]
async fn b78_a_key_may_be_optional() {
    let script = Script::new([answer(201)]);
    let client = script.client(Builder::new());
    let post = |key: Option<Key>| client.post(PAYMENTS).body(BODY).with_extension(key);
    post(Key::new("order-17").ok()).send().await.unwrap();
    post(None).send().await.unwrap();
    let keys = keys(&script);
    assert_eq!((&*keys[0], keys[1].len()), ("order-17", 36));
    // It counts as the key in every rule.
    let two = post(Key::new("a").ok()).with_extension(Key::new("b").unwrap()).send().await;
    assert!(matches!(ours(two), Error::KeyTwice));
    let get = client.get(PAYMENTS).with_extension(Some(Key::random())).send().await;
    assert!(matches!(ours(get), Error::NotProtected { method: Method::GET }));
    assert_eq!(script.seen().len(), 2);
    client.get(PAYMENTS).with_extension(None::<Key>).send().await.unwrap();
}

#[tokio::test]
async fn b78_two_different_keys_or_none_that_is_one_are_refused_before_anything_is_sent() {
    let script = Script::new([answer(201)]);
    let client = script.client(Builder::new());
    let post = || client.post(PAYMENTS).body(BODY);
    let two = post().header("idempotency-key", "a").with_extension(Key::new("b").unwrap()).send().await;
    assert!(matches!(ours(two), Error::KeyTwice));
    let lines = post().header("idempotency-key", "a").header("idempotency-key", "a").send().await;
    assert!(matches!(ours(lines), Error::KeyMalformed));
    for line in ["", " ", "a,b", "\"a", "é"] {
        assert!(matches!(ours(post().header("idempotency-key", line).send().await), Error::KeyMalformed), "{line:?}");
    }
    assert!(script.seen().is_empty());
}

#[tokio::test]
async fn b80_a_body_that_cannot_be_sent_twice_is_refused_before_anything_is_sent() {
    let script = Script::new([answer(201)]);
    let client = script.client(Builder::new());
    let streamed = || {
        let frames = stream::iter(["a", "b"]).map(|chunk| Ok::<_, std::io::Error>(Frame::data(Bytes::from(chunk))));
        Body::wrap(StreamBody::new(frames))
    };
    let error = ours(client.post(PAYMENTS).body(streamed()).with_extension(Key::new("mine").unwrap()).send().await);
    assert!(matches!(&error, Error::NotRepeatable { key } if key.as_str() == "mine"));
    let text = error.to_string();
    assert!(text.starts_with("nothing was sent") && text.contains(&error.key().unwrap().digest()), "{text}");
    assert!(script.seen().is_empty());
    // Where there is no second attempt, a stream is as good as ever.
    client.put(PAYMENTS).body(streamed()).send().await.unwrap();
    assert_eq!(script.seen().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_builder_can_make_several_clients() {
    let builder = at_once();
    for _ in 0..2 {
        let script = Script::new([answer(503), Answer::to(307, "/other"), answer(201)]);
        script.client(builder.clone()).post(PAYMENTS).send().await.unwrap();
        assert_eq!(script.seen().len(), 3);
    }
}
