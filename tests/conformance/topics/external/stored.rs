//! What is stored of an attempt with external effects: every answer, but those that free the key or leave it to the recovery.
//! Rows of the completing transaction stay with 2xx and 3xx.

use super::*;

#[tokio::test]
async fn b34_every_answer_is_stored_and_rows_stay_with_2xx_and_3xx() {
    for (status, rows) in [(200, 1), (204, 1), (303, 1), (402, 0), (409, 0), (500, 0), (503, 0)] {
        let service = saying(move || StatusCode::from_u16(status).unwrap()).await;
        let first = service.post("/say", "k", "1").await;
        assert_eq!(first.status, status);
        assert_replay(&first, &service.post("/say", "k", "1").await);
        assert_eq!(service.counts().await, (1, rows, 1), "{status}");
    }
    for (mark, status, counts) in [
        (Settle::KeepWrites, 402, (1, 1, 1)),
        (Settle::DropWrites, 200, (1, 0, 1)),
        (Settle::RunAgain, 200, (1, 0, 1)),
        (Settle::NothingExecuted, 400, (1, 0, 0)),
        (Settle::NothingExecuted, 503, (1, 0, 0)),
    ] {
        let service = saying(move || (StatusCode::from_u16(status).unwrap(), mark)).await;
        assert_eq!(service.post("/say", "k", "1").await.status, status);
        assert_eq!(service.counts().await, counts, "{mark:?}");
    }
}

#[tokio::test]
async fn b48_a_panic_is_stored_as_a_500() {
    let service = saying(|| -> StatusCode { panic!("on purpose") }).await;
    let first = service.post("/say", "k", "1").await;
    assert_problem(&first, 500, "idempotency-handler-panicked");
    assert_replay(&first, &service.post("/say", "k", "1").await);
    assert_eq!((service.counts().await, in_progress(&service).await), ((1, 0, 1), 0));
}

#[tokio::test]
async fn a_free_key_runs_again_with_the_same_step_key() {
    let service = saying(|| (StatusCode::SERVICE_UNAVAILABLE, Settle::NothingExecuted)).await;
    for _ in 0..2 {
        assert_eq!(service.post("/say", "k", "1").await.status, 503);
    }
    assert_eq!((service.counts().await, service.app.network.charges()), ((2, 0, 0), 1));
    assert_eq!(service.app.network.calls().len(), 2);
}

#[tokio::test]
async fn b75_step_keys_differ_between_accounts_and_keys() {
    let service = Service::start(routes()).await;
    service.post("/charge", "k", "1").await;
    service.post("/charge", "k2", "1").await;
    service.send("POST", "/charge", &[BOB, (KEY, "k")], "1").await;
    service.post("/alone", "k3", "").await;
    assert_eq!((service.counts().await, service.app.network.charges()), ((4, 3, 4), 4));
}

#[tokio::test]
async fn reconcile_leaves_a_5xx_and_a_panic_to_the_recovery() {
    let five_hundred: fn() -> Response = || (StatusCode::BAD_GATEWAY, "network").into_response();
    let panics: fn() -> Response = || panic!("on purpose");
    let too_large: fn() -> Response = || "x".repeat(101).into_response();
    for (answer, status) in [(five_hundred, 502), (panics, 500), (too_large, 500)] {
        let service = saying(answer).await;
        assert_eq!(service.post("/reconcile", "k", "1").await.status, status);
        assert_eq!((service.counts().await, in_progress(&service).await), ((1, 0, 1), 1));
        assert_problem(&service.post("/reconcile", "k", "1").await, 409, "in-progress");
        assert_eq!(service.app.idempotency.stalled().await.unwrap().len(), 1, "its lease ended at once");
    }
    let service = saying(|| StatusCode::PAYMENT_REQUIRED).await;
    let first = service.post("/reconcile", "k", "1").await;
    assert_replay(&first, &service.post("/reconcile", "k", "1").await);
}

#[tokio::test]
async fn an_application_wide_release_frees_no_key_whose_effect_may_have_happened() {
    let defaults = |builder: idem_runtime::Builder<Db>| builder.on_server_error(OnServerError::Release);
    let service = Service::of(routes(), 5, defaults, || StatusCode::INTERNAL_SERVER_ERROR.into_response()).await;
    let first = service.post("/say", "k", "1").await;
    assert_replay(&first, &service.post("/say", "k", "1").await);
    assert_eq!(service.counts().await, (1, 0, 1));
}

#[tokio::test]
async fn a_response_that_cannot_be_stored_is_a_stored_500() {
    let defaults = |builder: idem_runtime::Builder<Db>| builder.max_response(1000);
    let service = Service::of(routes(), 5, defaults, || "x".repeat(1001).into_response()).await;
    let first = service.post("/say", "k", "1").await;
    assert_problem(&first, 500, "idempotency-response-too-large");
    assert_replay(&first, &service.post("/say", "k", "1").await);
    assert_eq!(service.counts().await, (1, 0, 1));

    // Where not even that fits, the recovery decides.
    let defaults = |builder: idem_runtime::Builder<Db>| builder.max_response(10);
    let service = Service::of(routes(), 5, defaults, || "x".repeat(11).into_response()).await;
    assert_problem(&service.post("/say", "k", "1").await, 500, "idempotency-response-too-large");
    assert_eq!((service.counts().await, in_progress(&service).await), ((1, 0, 1), 1));
}
