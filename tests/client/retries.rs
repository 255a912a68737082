//! What is retried, how long is waited, and when it ends: on a paused clock, to the millisecond.
//! The answers come from a script, so nothing here is a race.

use std::time::Duration;

use idem_client::{Builder, Error, ErrorResponse, Key, RefusedRedirect, retry_policies::policies::ExponentialBackoff};
use tokio::time::Instant;

use crate::stub::{Answer, BODY, PAYMENTS, Script, answer, at_once, gave_up, in_progress, status_of};

const SECOND: Duration = Duration::from_secs(1);

fn few(retries: u32) -> ExponentialBackoff {
    ExponentialBackoff::builder().build_with_max_retries(retries)
}

/// Sends one call to a script, without backoff; the status it ended with.
async fn send(answers: impl IntoIterator<Item = Answer>) -> (u16, Script) {
    let script = Script::new(answers);
    let response = script.client(at_once()).post(PAYMENTS).body(BODY).send().await.unwrap();
    (response.status().as_u16(), script)
}

#[tokio::test(start_paused = true)]
async fn b80_409_twice_then_200() {
    let (status, script) = send([answer(409).with("retry-after", "1"), in_progress(), answer(200)]).await;
    assert_eq!((status, script.waits()), (200, vec![1000, 0]));
}

#[tokio::test(start_paused = true)]
async fn b80_a_409_of_the_application_is_returned_with_its_body() {
    for no in [answer(409).saying("already paid"), answer(409).saying(r#"{"code":"already-paid"}"#)] {
        let script = Script::new([no.clone(), answer(201)]);
        let response = script.client(at_once()).post(PAYMENTS).body(BODY).send().await.unwrap();
        assert_eq!((response.status().as_u16(), script.seen().len()), (409, 1));
        assert_eq!(response.text().await.unwrap(), no.body);
    }
}

#[tokio::test(start_paused = true)]
async fn b80_a_long_error_body_is_the_callers_to_the_last_byte() {
    for length in [ErrorResponse::MAX_BODY, ErrorResponse::MAX_BODY + 1, 3 * 1024 * 1024] {
        let body: String = ('a'..='z').cycle().take(length).collect();
        let script = Script::new([answer(409).saying(&body)]);
        let response = script.client(at_once().read_ahead(0)).post(PAYMENTS).body(BODY).send().await.unwrap();
        assert!(response.text().await.unwrap() == body, "{length}");
    }
}

#[tokio::test(start_paused = true)]
async fn b80_a_429_waits_as_long_as_the_server_asks() {
    let (status, script) = send([answer(429).with("retry-after", "7"), answer(201)]).await;
    assert_eq!((status, script.waits()), (201, vec![7_000]));
    // An earlier retry would be refused again, so a wait over the maximum is not shortened.
    let script = Script::new([answer(429).with("retry-after", "31"), answer(201)]);
    let gave_up = gave_up(script.client(at_once()).post(PAYMENTS).body(BODY).send().await);
    assert_eq!((script.seen().len(), status_of(gave_up.last())), (1, Some(429)));
    assert_eq!(gave_up.response().unwrap().headers()["retry-after"], "31");
    let script = Script::new([answer(429).with("retry-after", "31"), answer(201)]);
    script.client(at_once().max_retry_after(Duration::ZERO)).post(PAYMENTS).body(BODY).send().await.unwrap();
    assert_eq!(script.waits(), [0]);
}

#[tokio::test(start_paused = true)]
async fn b80_which_responses_are_retried_is_the_callers_choice() {
    type Rule = fn(&ErrorResponse) -> bool;
    let locked: Rule = |response| response.status() == 423 || response.is_retried_by_default();
    let coded: Rule = |response| response.code().as_deref() == Some("idempotency_key_in_use");
    let never: Rule = |_| false;
    let always: Rule = |_| true;
    let in_use = answer(409).saying(r#"{"code":"idempotency_key_in_use"}"#);
    for (rule, first, status) in [
        (locked, answer(423), 201),
        (locked, answer(503), 201),
        (locked, answer(409), 409),
        (coded, in_use, 201),
        (coded, answer(409), 409),
        (coded, in_progress(), 409),
        (never, answer(503).with("retry-after", "1"), 503),
        (never, answer(429).with("retry-after", "1"), 429),
        (always, answer(404), 201),
        // The rule is for errors: no other response is retried, nor one that the server has stored.
        (always, answer(202), 202),
        (always, answer(304), 304),
        (always, answer(404).with("idempotent-replayed", "true"), 404),
    ] {
        let script = Script::new([first.clone(), answer(201)]);
        let response = script.client(at_once().retry_on(rule)).post(PAYMENTS).body(BODY).send().await.unwrap();
        let attempts = if status == 201 { 2 } else { 1 };
        assert_eq!((response.status().as_u16(), script.seen().len()), (status, attempts), "{first:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn b80_the_last_response_is_in_the_error() {
    for (length, truncated) in [(0, false), (ErrorResponse::MAX_BODY, false), (ErrorResponse::MAX_BODY + 1, true)] {
        let last = answer(503).with("x-request-id", "7").saying(&"b".repeat(length));
        let script = Script::new([answer(500), last]);
        let gave_up = gave_up(script.client(at_once().backoff(few(1))).post(PAYMENTS).body(BODY).send().await);
        let response = gave_up.response().unwrap();
        assert_eq!((response.status().as_u16(), &response.headers()["x-request-id"]), (503, &"7".parse().unwrap()));
        assert_eq!((response.body().len(), response.is_truncated()), (length.min(64 * 1024), truncated));
        assert!(response.body().iter().all(|byte| *byte == b'b'));
    }
}

#[tokio::test(start_paused = true)]
async fn b80_each_5xx_is_retried() {
    for again in [500, 501, 502, 503, 504, 507, 599] {
        let (status, script) = send([answer(again), answer(201)]).await;
        assert_eq!((status, script.seen().len()), (201, 2), "{again}");
    }
}

#[tokio::test(start_paused = true)]
async fn b80_no_other_answer_is_retried() {
    for last in [200, 201, 202, 204, 300, 304, 400, 401, 402, 403, 404, 408, 410, 412, 413, 422, 425, 451] {
        let (status, script) = send([answer(last).with("retry-after", "1"), answer(201)]).await;
        assert_eq!((status, script.seen().len()), (last, 1));
    }
    for last in [409, 429] {
        let (status, script) = send([answer(last).with("retry-after", "soon"), answer(201)]).await;
        assert_eq!((status, script.seen().len()), (last, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn b80_a_replay_is_final_whatever_its_status() {
    for stored in [500, 503, 409] {
        let replay = answer(stored).with("idempotent-replayed", "true").with("retry-after", "1");
        let (status, script) = send([answer(503), replay, answer(201)]).await;
        assert_eq!((status, script.seen().len()), (stored, 2));
    }
    let (status, _) = send([answer(500).with("idempotent-replayed", "false"), answer(201)]).await;
    assert_eq!(status, 201);
}

#[tokio::test(start_paused = true)]
async fn b80_each_form_of_retry_after_is_honoured_and_capped() {
    let date = |value: &str| answer(503).with("date", "Wed, 21 Oct 2026 07:28:00 GMT").with("retry-after", value);
    for (asking, waited) in [
        (answer(503).with("retry-after", "7"), 7_000),
        (date("Wed, 21 Oct 2026 07:28:09 GMT"), 9_000),
        (date("Wed, 21 Oct 2026 07:27:00 GMT"), 0),
        (date("Thu, 21 Oct 2027 07:28:00 GMT"), 30_000),
        (answer(503).with("retry-after", "0"), 0),
        (answer(503).with("retry-after", "-5"), 0),
        (answer(503).with("retry-after", "soon"), 0),
        (answer(503).with("retry-after", ""), 0),
        (answer(503).with("retry-after", "31536000"), 30_000),
        (answer(503).with("retry-after", "99999999999999999999999"), 30_000),
        (answer(409).with("retry-after", "2"), 2_000),
    ] {
        let (status, script) = send([asking.clone(), answer(201)]).await;
        assert_eq!((status, script.waits()), (201, vec![waited]), "{:?}", asking.headers);
    }
    let script = Script::new([answer(503).with("retry-after", "31536000"), answer(201)]);
    script.client(at_once().max_retry_after(3 * SECOND)).post(PAYMENTS).send().await.unwrap();
    assert_eq!(script.waits(), [3000]);
}

#[tokio::test(start_paused = true)]
async fn b80_the_backoff_grows_with_full_jitter_and_comes_on_top_of_retry_after() {
    let mut widest = [0; 8];
    let mut narrowest = [u128::MAX; 8];
    for _ in 0..60 {
        let script = Script::new([answer(503).with("retry-after", "1"), answer(503)]);
        gave_up(script.client(Builder::new()).post(PAYMENTS).send().await);
        let mut waits = script.waits();
        waits[0] -= 1000;
        for (retry, wait) in waits.into_iter().take(8).enumerate() {
            widest[retry] = widest[retry].max(wait);
            narrowest[retry] = narrowest[retry].min(wait);
        }
    }
    for (retry, bound) in [200, 400, 800, 1600, 3200, 6400, 10_000, 10_000].into_iter().enumerate() {
        // A timer is up to a millisecond late. Of 60 draws one is in either half, but for one time in 2^59.
        assert!(widest[retry] <= bound + 1, "retry {retry}: {} ms", widest[retry]);
        assert!(widest[retry] > bound / 2 && narrowest[retry] < bound / 2, "retry {retry}");
    }
}

#[tokio::test(start_paused = true)]
async fn b80_the_budget_ends_it_and_the_error_says_how_to_resume() {
    let script = Script::new([answer(503).with("retry-after", "4")]);
    let start = Instant::now();
    let client = script.client(at_once().budget(10 * SECOND));
    let result = client.post(PAYMENTS).body(BODY).with_extension(Key::new("order-17").unwrap()).send().await;
    // At 0, 4 and 8 seconds; what would begin at 12 is not waited for.
    assert_eq!((script.seen().len(), start.elapsed()), (3, 8 * SECOND));
    let gave_up = gave_up(result);
    assert_eq!((gave_up.attempts(), gave_up.elapsed(), status_of(gave_up.last())), (3, 8 * SECOND, Some(503)));
    assert_eq!(gave_up.key().as_str(), "order-17");
    let text = Error::GaveUp(gave_up).to_string();
    // printf %s order-17 | sha256sum
    assert!(text.contains(&Key::new("order-17").unwrap().digest()), "{text}");
    assert!(text.contains("resume") && text.contains("503") && !text.contains("order-17"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn b80_a_wait_that_does_not_fit_is_not_begun() {
    for after in ["30", "31536000", "Wed, 21 Oct 2099 07:28:00 GMT"] {
        let script = Script::new([answer(503).with("retry-after", after)]);
        let start = Instant::now();
        gave_up(script.client(at_once().budget(10 * SECOND)).post(PAYMENTS).send().await);
        assert_eq!((script.seen().len(), start.elapsed()), (1, Duration::ZERO));
    }
}

#[tokio::test(start_paused = true)]
async fn the_number_of_retries_can_be_limited() {
    let script = Script::new([in_progress()]);
    let gave_up = gave_up(script.client(Builder::new().backoff(few(2))).post(PAYMENTS).send().await);
    assert_eq!((gave_up.attempts(), script.seen().len(), status_of(gave_up.last())), (3, 3, Some(409)));
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_request_itself_is_not_retried() {
    let client = at_once().build(crate::stub::transport().https_only(true)).unwrap();
    let error = client.post(PAYMENTS).send().await.unwrap_err();
    assert!(Error::of(&error).is_none() && error.is_builder(), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn b80_an_error_can_be_told_apart_through_the_client() {
    let script = Script::new([Answer::to(301, "/elsewhere")]);
    let error = script.client(at_once()).patch(PAYMENTS).send().await.unwrap_err();
    let reason = Error::of(&error).map(|error| match error {
        Error::RedirectRefused { reason, .. } => *reason,
        other => panic!("{other}"),
    });
    assert_eq!(reason, Some(RefusedRedirect::KeyLost));
}
