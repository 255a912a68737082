//! The options about what is sent: its limit, its cookies, the format of idem's own problems.
//! The handlers and routes are the parent's.

use super::*;

#[tokio::test]
async fn max_response() {
    let eleven = || "x".repeat(11).into_response();
    let service = Service::of(routes(), 5, |builder| builder.max_response(10), eleven).await;
    assert_problem(&service.post("/app", "k", "").await, 500, "idempotency-response-too-large");
    assert_eq!(service.counts().await, (1, 0, 0));
    assert_eq!(service.post("/large", "k", "").await.status, 200);
    assert_eq!(service.counts().await, (2, 1, 1));
}

#[tokio::test]
async fn b24_set_cookie() {
    let cookies = || ([(header::SET_COOKIE, "a=1")], [("x-kept", "1")], "done").into_response();
    for (set_cookie, path, replayed) in [
        (SetCookie::Replay, "/app", 1),
        (SetCookie::Drop, "/app", 0),
        (SetCookie::Drop, "/repeated_cookies", 1),
        (SetCookie::Replay, "/dropped_cookies", 0),
    ] {
        let service = Service::of(routes(), 5, |builder| builder.set_cookie(set_cookie), cookies).await;
        let first = service.post(path, "k", "").await;
        let again = service.post(path, "k", "").await;
        assert_eq!((first.all("set-cookie").len(), again.all("set-cookie").len()), (1, replayed), "{path}");
        assert_eq!((again.header("idempotent-replayed"), again.header("x-kept")), (Some("true"), Some("1")));
        assert_eq!(service.counts().await, (1, 1, 1));
    }
}

#[tokio::test]
async fn render() {
    let service = service(|builder| {
        builder.mismatch(Mismatch::BadRequest).render(|problem| {
            let retry = problem.retry_after().map_or(String::new(), |seconds| format!(" in {seconds}"));
            let text = format!("{}: {}{retry}", problem.code().as_str(), problem.title());
            (problem.status(), [("x-code", problem.type_uri())], text).into_response()
        })
    })
    .await;
    let first = service.post("/app", "k", "1").await;
    for (answer, status, code) in [
        (service.send("POST", "/app", &[ALICE], "").await, 400, Code::KeyMissing),
        (service.post("/app", "\"", "").await, 400, Code::KeyMalformed),
        (service.post("/app", "k", "2").await, 400, Code::KeyReuse),
    ] {
        assert_eq!(answer.status, status);
        assert_eq!(answer.header("x-code"), Some(&*format!("urn:idem:problem:{}", code.as_str())));
        assert!(answer.text().starts_with(code.as_str()), "{}", answer.text());
    }
    assert_replay(&first, &service.post("/app", "k", "1").await);
    assert_eq!(service.counts().await, (1, 1, 1));
}

#[tokio::test]
async fn a_renderer_that_panics_costs_its_own_document_alone() {
    let router = Router::new().route("/", post(say));
    let broken = |builder: Builder<Db>| builder.render(|_| panic!("the renderer"));
    let service = Service::of(router, 1, broken, || panic!("the handler")).await;
    let first = service.post("/", "k", "1").await;
    assert_problem(&first, 500, "idempotency-handler-panicked");
    assert_replay(&first, &service.post("/", "k", "1").await);
    assert_problem(&service.post("/", "k", "2").await, 422, "idempotency-key-reuse");
    assert_eq!(service.counts().await, (1, 0, 1));
}
