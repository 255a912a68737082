//! Events whose handler does not succeed: a 5xx frees the id, a 4xx is final, and the options say otherwise.
//! The sender delivers again until it gets a 2xx.

use std::sync::atomic::{AtomicUsize, Ordering};

use axum::{http::StatusCode, response::IntoResponse};
use idem_runtime::Settle;

use super::{answering, assert_known, send};

#[tokio::test]
async fn b82_an_event_whose_handler_fails_is_run_again_when_it_is_sent_again() {
    static BEGUN: AtomicUsize = AtomicUsize::new(0);
    let service = answering(|| match BEGUN.fetch_add(1, Ordering::SeqCst) {
        0 => StatusCode::INTERNAL_SERVER_ERROR,
        1 => panic!("on purpose"),
        2 => StatusCode::BAD_GATEWAY,
        _ => StatusCode::NO_CONTENT,
    })
    .await;
    for status in [500, 500, 502] {
        assert_eq!(send(&service, "/", "e").await.status, status);
    }
    assert_eq!(service.counts().await, (3, 0, 0));
    assert_eq!(send(&service, "/", "e").await.status, 204);
    assert_known(&send(&service, "/", "e").await, 204);
    assert_eq!(service.counts().await, (4, 1, 1));
}

#[tokio::test]
async fn a_failure_is_final_where_that_is_asked_for_and_a_refusal_is() {
    let service = answering(|| (StatusCode::BAD_GATEWAY, "no")).await;
    assert_eq!(send(&service, "/store", "e").await.status, 502);
    assert_known(&send(&service, "/store", "e").await, 502);
    assert_eq!(service.counts().await, (1, 0, 1));

    let service = answering(|| (StatusCode::UNPROCESSABLE_ENTITY, "no such order")).await;
    assert_eq!(send(&service, "/", "e").await.status, 422);
    assert_known(&send(&service, "/", "e").await, 422);
    assert_eq!(service.counts().await, (1, 0, 1));
}

#[tokio::test]
async fn an_event_that_overtook_another_is_run_again_where_a_refusal_frees_its_id() {
    static BEGUN: AtomicUsize = AtomicUsize::new(0);
    let service = answering(|| match BEGUN.fetch_add(1, Ordering::SeqCst) {
        0 => StatusCode::NOT_FOUND.into_response(),
        1 => StatusCode::CONFLICT.into_response(),
        2 => StatusCode::NO_CONTENT.into_response(),
        _ => (StatusCode::GONE, Settle::KeepWrites).into_response(),
    })
    .await;
    for status in [404, 409] {
        assert_eq!(send(&service, "/in_any_order", "e").await.status, status);
    }
    assert_eq!(service.counts().await, (2, 0, 0));
    assert_eq!(send(&service, "/in_any_order", "e").await.status, 204);
    assert_known(&send(&service, "/in_any_order", "e").await, 204);
    assert_eq!(service.counts().await, (3, 1, 1));
    // What one response asks for wins over the option.
    assert_eq!(send(&service, "/in_any_order", "kept").await.status, 410);
    assert_known(&send(&service, "/in_any_order", "kept").await, 410);
    assert_eq!(service.counts().await, (4, 2, 2));
}
