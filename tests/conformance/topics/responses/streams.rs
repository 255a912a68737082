//! Bodies that stream: endless, stopping, failing midway, whole.
//! What cannot be stored whole is rolled back, never cut off.

use super::*;

#[tokio::test]
async fn b31_an_event_stream_is_refused_and_rolled_back() {
    let events = || stream::repeat_with(|| Ok::<_, Infallible>(Event::default().data("tick")));
    let service = Service::saying(move || Sse::new(events())).await;
    assert_problem(&service.post("/", "k", "").await, 500, "idempotency-response-unfinished");
    assert_eq!(service.counts().await, (1, 0, 0));
}

#[tokio::test]
async fn b31_an_endless_body_is_refused_at_the_limit() {
    let endless = || Body::from_stream(stream::repeat_with(|| Ok::<_, Infallible>(Bytes::from_static(&[b'x'; 4096]))));
    let service = Service::saying(endless).await;
    assert_problem(&service.post("/", "k", "").await, 500, "idempotency-response-too-large");
    assert_eq!(service.counts().await, (1, 0, 0));
}

#[tokio::test]
async fn b31_a_body_that_stops_without_ending_is_given_up() {
    // This one takes the ten seconds that the runtime allows.
    let stuck = || Body::from_stream(stream::iter([Ok::<_, Infallible>("start")]).chain(stream::pending()));
    let service = Service::saying(stuck).await;
    assert_problem(&service.post("/", "k", "").await, 500, "idempotency-response-unfinished");
    assert_eq!(service.counts().await, (1, 0, 0));
}

#[tokio::test]
async fn b31_a_body_that_fails_or_panics_midway_is_refused_and_rolled_back() {
    let failing = || Body::from_stream(stream::iter([Ok("one"), Ok("two"), Err(io::Error::other("lost"))]));
    let panicking = || {
        Body::from_stream(stream::iter(0..3).map(|at| match at {
            2 => panic!("a body that panics"),
            _ => Ok::<_, Infallible>("chunk"),
        }))
    };
    for service in [Service::saying(failing).await, Service::saying(panicking).await] {
        assert_problem(&service.post("/", "k", "").await, 500, "idempotency-response-unfinished");
        assert_eq!(service.counts().await, (1, 0, 0));
        assert_problem(&service.post("/", "k", "").await, 500, "idempotency-response-unfinished");
        assert_eq!(service.counts().await, (2, 0, 0), "the key was free");
    }
}

#[tokio::test]
async fn a_streamed_body_that_ends_is_stored_whole() {
    let chunks = || Body::from_stream(stream::iter(["one ", "two ", "", "three"].map(Ok::<_, Infallible>)));
    let service = Service::saying(chunks).await;
    let first = service.post("/", "k", "").await;
    assert_eq!(first.text(), "one two three");
    assert_replay(&first, &service.post("/", "k", "").await);
    assert_eq!(service.counts().await, (1, 1, 1));
}

#[tokio::test]
async fn a_framing_of_the_handlers_own_does_not_count() {
    for (name, value) in [("content-length", "2"), ("transfer-encoding", "chunked")] {
        let service = Service::saying(move || ([(name, value)], "hello")).await;
        let first = service.post("/", "k", "").await;
        assert_eq!((first.text(), first.header("content-length")), ("hello", Some("5")), "{name}");
        assert_replay(&first, &service.post("/", "k", "").await);
        assert_eq!(service.counts().await, (1, 1, 1));
    }
}
