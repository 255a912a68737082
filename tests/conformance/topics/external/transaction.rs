//! The completing transaction of an attempt: when it cannot commit, on a pool of one, and taken apart by the handler.
//! What is left of it never reaches the next user of the connection.

use super::*;

#[tokio::test]
async fn b43_b56_a_completing_transaction_that_cannot_commit_leaves_the_record_in_progress() {
    let deferred = "INSERT INTO deferred VALUES (4711)";
    let broken = "INSERT INTO nowhere VALUES (1)";
    for (sql, rows, codes) in [
        (deferred, 0, &["idempotency-transaction-aborted"][..]),
        ("COMMIT", 1, &["idempotency-transaction-ended"]),
        ("ROLLBACK", 0, &["idempotency-transaction-ended"]),
        ("ROLLBACK; BEGIN", 0, &["idempotency-transaction-ended"]),
        (broken, 0, &["idempotency-transaction-aborted"]),
    ] {
        if sql == broken && !super::super::ABORTS {
            continue;
        }
        let service = Service::of(routes(), 1, plain, || ().into_response()).await;
        service
            .execute("CREATE TABLE deferred (payment INTEGER REFERENCES payments (id) DEFERRABLE INITIALLY DEFERRED)")
            .await;
        let answer = service.send("POST", "/meddle", &[ALICE, (KEY, "k"), ("content-type", "text/plain")], sql).await;
        assert_eq!(answer.status, 500, "{sql}: {}", answer.text());
        assert!(codes.contains(&answer.json()["code"].as_str().unwrap()), "{sql}: {}", answer.text());
        assert_eq!((service.counts().await, in_progress(&service).await), ((1, rows, 1), 1), "{sql}");
        let again = service.send("POST", "/meddle", &[ALICE, (KEY, "k"), ("content-type", "text/plain")], sql).await;
        assert_problem(&again, 409, "in-progress");
        assert_eq!(service.app.idempotency.stalled().await.unwrap().len(), 1, "{sql}");
        // The pool's only connection is sound.
        assert_eq!(service.post("/pay", "k2", "1").await.status, 201, "{sql}");
    }
}

#[tokio::test]
async fn b49_a_pool_of_one_is_enough() {
    let service = Service::of(routes(), 1, plain, || StatusCode::OK.into_response()).await;
    for path in ["/charge", "/alone", "/say"] {
        let first = service.post(path, path, "1").await;
        assert!(first.status < 300, "{path}");
        assert_replay(&first, &service.post(path, path, "1").await);
    }
    let first = service.posting("/hold-charge", "k", "1");
    service.app.gate.entered().await;
    assert_eq!(service.post("/pay", "k2", "1").await.status, 201, "a running attempt holds no connection");
    service.app.gate.open();
    assert_eq!(first.await.unwrap().status, 201);
}

#[tokio::test]
async fn what_is_left_over_of_a_transaction_is_no_type_error() {
    // A connection and a transaction both serve, as with database effects.
    async fn helper(connection: &mut Connection) -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM payments").fetch_one(connection).await.unwrap()
    }

    #[idempotent(scope = account, effects = external)]
    async fn counts(attempt: &mut Attempt<Db>, _: State<App>, account: Account) -> HeaderAndText {
        assert_eq!(attempt.operation(), "counts");
        write(attempt.transaction().await.unwrap(), &account).await;
        let count = helper(attempt.transaction().await.unwrap()).await;
        ([("x-step", HeaderValue::from(attempt.key("s")))], count.to_string())
    }
    type HeaderAndText = ([(&'static str, HeaderValue); 1], String);

    let service = Service::start(Router::new().route("/counts", post(counts))).await;
    let answer = service.send(Method::POST.as_str(), "/counts", &[ALICE, (KEY, "k")], "").await;
    assert_eq!((answer.text(), answer.header("x-step").map(str::len)), ("1", Some(32)));
}

#[tokio::test]
async fn a_handler_that_gives_up_on_the_transaction_leaves_no_connection_inside_one() {
    #[idempotent(scope = account, effects = external)]
    async fn hasty(attempt: &mut Attempt<Db>, State(app): State<App>, account: Account, polls: String) -> StatusCode {
        app.runs.begin();
        cut(polls.parse().unwrap(), attempt.transaction()).await;
        StatusCode::CREATED
    }

    // Which step of the opening it falls into, nobody can say; with several rounds it falls into each.
    for polls in (1..8).cycle().take(28) {
        let service = Service::of(Router::new().route("/hasty", post(hasty)), 1, plain, || ().into_response()).await;
        let other = service.beside(routes()).await;
        for key in ["a", "b"] {
            assert_eq!(service.post("/hasty", key, polls.to_string()).await.status, 201);
        }
        assert_eq!(other.counts().await, (2, 0, 2), "{polls}: what was answered is committed");
        assert_eq!(in_progress(&other).await, 0, "{polls}");
    }
}
