//! Whose keys these are: accounts, realms and endpoints that share nothing, callers who are nobody.
//! No response reveals that another caller has used a key, and a rejected caller leaves no record.

use axum::{Router, body::Bytes, extract::State, http::StatusCode, routing::post};
use idem_runtime::{Builder, idempotent};
use idem_tests::{
    http,
    log_capture::{heard, listen},
    soon,
};

use super::{Connection, Db, app::*};

#[idempotent(scope = (account, endpoint))]
async fn here(tx: &mut Connection, State(app): State<App>, account: Account) -> (StatusCode, String) {
    app.runs.begin();
    write(tx, &account).await;
    (StatusCode::CREATED, format!("here {}", app.runs.count()))
}

#[idempotent(scope = (account, endpoint))]
async fn there(tx: &mut Connection, State(app): State<App>, account: Account) -> (StatusCode, String) {
    app.runs.begin();
    write(tx, &account).await;
    (StatusCode::CREATED, format!("there {}", app.runs.count()))
}

/// Another endpoint that says it is the operation `here`.
#[idempotent(scope = (account, endpoint), operation = "here")]
async fn also_here(tx: &mut Connection, State(app): State<App>, account: Account, _: Bytes) -> StatusCode {
    app.runs.begin();
    write(tx, &account).await;
    StatusCode::CREATED
}

fn routes() -> Router<App> {
    let router = Router::new().route("/pay", post(pay)).route("/hold", post(hold)).route("/here", post(here));
    router.route("/there", post(there)).route("/also-here", post(also_here))
}

async fn by(service: &Service, bearer: &str, path: &str, body: &str) -> http::RawResponse {
    let authorization = format!("Bearer {bearer}");
    service.send("POST", path, &[("authorization", &authorization), (KEY, "k")], body).await
}

#[tokio::test]
async fn b69_two_accounts_share_no_key() {
    let service = Service::start(routes()).await;
    let alice = by(&service, "alice", "/pay", "1").await;
    let bob = by(&service, "bob", "/pay", "1").await;
    assert_eq!((alice.text(), bob.text()), ("run 1 for alice", "run 2 for bob"));
    assert_replay(&alice, &by(&service, "alice", "/pay", "1").await);
    assert_replay(&bob, &by(&service, "bob", "/pay", "1").await);
    assert_eq!(service.counts().await, (2, 2, 2));
    // Another body under Alice's key is news to Carol, and a mismatch to Alice alone.
    assert_eq!(by(&service, "carol", "/pay", "2").await.text(), "run 3 for carol");
    assert_problem(&by(&service, "alice", "/pay", "2").await, 422, "idempotency-key-reuse");
    assert_eq!(service.counts().await, (3, 3, 3));
}

#[tokio::test]
async fn b69_a_running_key_is_nobody_elses_409() {
    let service = Service::start(routes()).await;
    let alice = service.posting("/hold", "k", "1");
    service.app.gate.entered().await;
    let address = service.address();
    let bob = tokio::spawn(async move { http::post(address, "/hold", &[BOB, (KEY, "k")], "1").await });
    service.app.gate.open();
    assert_eq!(soon("Alice's answer", alice).await.unwrap().status, 201);
    let bob = soon("Bob's answer", bob).await.unwrap();
    assert_eq!((bob.status, bob.text()), (201, "run 2 for bob"));
    assert_eq!(service.counts().await, (2, 2, 2));
}

#[tokio::test]
async fn b69_who_is_not_let_in_learns_nothing() {
    let service = Service::start(routes()).await;
    by(&service, "alice", "/pay", "1").await;
    let used = service.send("POST", "/pay", &[(KEY, "k")], "1").await;
    let unused = service.send("POST", "/pay", &[(KEY, "never")], "1").await;
    assert_eq!((used.status, &used.body), (401, &unused.body));
    let names =
        |response: &http::RawResponse| response.headers.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&used), names(&unused));
    assert_eq!(service.counts().await, (1, 1, 1));
}

#[tokio::test]
async fn b70_a_refreshed_token_is_the_same_account() {
    let service = Service::start(routes()).await;
    let first = by(&service, "alice.one", "/pay", "1").await;
    assert_replay(&first, &by(&service, "alice.two", "/pay", "1").await);
    assert_replay(&first, &by(&service, "alice", "/pay", "1").await);
    assert_eq!(service.counts().await, (1, 1, 1));
}

#[tokio::test]
async fn b70_equal_ids_in_two_realms_are_two_accounts() {
    let service = Service::start(routes()).await;
    let accounts = ["alice", "org/alice", "user/alice", "Alice", "o/rgalice", "orgalice"];
    for (run, account) in accounts.into_iter().enumerate() {
        assert_eq!(by(&service, account, "/pay", "1").await.text(), format!("run {} for {account}", run + 1));
    }
    assert_eq!(service.counts().await, (6, 6, 6));
}

#[tokio::test]
async fn b70_nobody_is_500_and_never_a_shared_bucket() {
    let service = Service::start(routes()).await;
    for nobody in ["nobody", "org/", "/alice"] {
        for path in ["/pay", "/here"] {
            assert_problem(&by(&service, nobody, path, "1").await, 500, "idempotency-scope-empty");
        }
    }
    assert_eq!(service.counts().await, (0, 0, 0));
}

#[tokio::test]
async fn b13_with_the_endpoint_in_the_scope_the_same_key_is_another_operation() {
    let service = Service::start(routes()).await;
    let here = by(&service, "alice", "/here", "1").await;
    let there = by(&service, "alice", "/there", "1").await;
    assert_eq!((here.text(), there.text()), ("here 1", "there 2"));
    assert_replay(&here, &by(&service, "alice", "/here", "1").await);
    assert_replay(&there, &by(&service, "alice", "/there", "1").await);
    assert_eq!(service.counts().await, (2, 2, 2));
    // Within the endpoint the request counts as ever, and its account as well.
    assert_problem(&by(&service, "alice", "/here", "2").await, 422, "idempotency-key-reuse");
    assert_eq!(by(&service, "bob", "/here", "1").await.text(), "here 3");
    // Another route is another endpoint, also for an operation of the same name.
    let also_here = by(&service, "alice", "/also-here", "1").await;
    assert_eq!((also_here.status, also_here.header("idempotent-replayed")), (201, None));
    assert_replay(&also_here, &by(&service, "alice", "/also-here", "1").await);
    // A key of the account alone is yet another.
    let of_the_account = by(&service, "alice", "/pay", "1").await;
    assert_eq!((of_the_account.status, of_the_account.header("idempotent-replayed")), (201, None));
    assert_eq!(service.counts().await.2, 5);
}

#[tokio::test]
async fn b13_a_renamed_parameter_is_the_same_endpoint() {
    let old = Service::start(Router::new().route("/orders/{id}", post(here)).route("/files/{*path}", post(here))).await;
    let renamed = Router::new().route("/orders/{order_id}", post(here)).route("/files/{*rest}", post(here));
    let new = old.beside(renamed).await;
    let order = old.post("/orders/7", "k", "1").await;
    assert_replay(&order, &new.post("/orders/7", "k", "1").await);
    // The same endpoint with another order: a mismatch, as ever.
    assert_problem(&new.post("/orders/8", "k", "1").await, 422, "idempotency-key-reuse");
    let file = new.post("/files/a/b", "k", "1").await;
    assert_replay(&file, &old.post("/files/a/b", "k", "1").await);
    assert_eq!(old.counts().await, (2, 2, 2));
}

#[tokio::test]
async fn b13_where_no_route_matched_the_whole_path_is_the_endpoint() {
    let version = || Router::new().fallback(post(here));
    let service = Service::start(Router::new().nest("/v1", version()).nest("/v2", version())).await;
    let first = service.post("/v1/x", "k", "1").await;
    let second = service.post("/v2/x", "k", "1").await;
    assert_eq!((first.text(), second.text()), ("here 1", "here 2"));
    assert_replay(&first, &service.post("/v1/x", "k", "1").await);
    assert_replay(&second, &service.post("/v2/x", "k", "1").await);
    assert_eq!(service.counts().await, (2, 2, 2));
}

#[tokio::test]
async fn b13_with_the_account_alone_the_same_key_elsewhere_is_422() {
    let service = Service::start(routes()).await;
    let first = by(&service, "alice", "/pay", "1").await;
    service.app.gate.open();
    assert_problem(&by(&service, "alice", "/hold", "1").await, 422, "idempotency-key-reuse");
    assert_replay(&first, &by(&service, "alice", "/pay", "1").await);
    assert_eq!(service.counts().await, (1, 1, 1));
}

/// Two services whose tables are one, each with its operation at the same path.
async fn two_services(namespaces: [Option<&str>; 2]) -> [Service; 2] {
    let with = |name: Option<&str>| {
        let name = name.map(str::to_owned);
        move |builder: Builder<Db>| match name {
            Some(name) => builder.namespace(name),
            None => builder,
        }
    };
    let [first, second] = namespaces;
    let one = Service::with(Router::new().route("/users", post(pay)), with(first)).await;
    let two = one.beside_with(Router::new().route("/users", post(refund)), with(second)).await;
    [one, two]
}

#[tokio::test]
async fn b69_two_services_with_namespaces_share_no_key() {
    for namespaces in [[None, Some("billing")], [Some("billing"), Some("mail")]] {
        let [one, two] = two_services(namespaces).await;
        let (first, second) = (one.post("/users", "k", "1").await, two.post("/users", "k", "1").await);
        assert_eq!((first.text(), second.text()), ("run 1 for alice", "refund 2 for alice"));
        assert_replay(&first, &one.post("/users", "k", "1").await);
        assert_replay(&second, &two.post("/users", "k", "1").await);
        assert_eq!(one.counts().await, (2, 2, 2));
    }
}

#[tokio::test]
async fn b69_a_replay_of_another_operation_is_a_warning_without_the_key() {
    let [one, two] = two_services([None, None]).await;
    listen();
    let first = one.post("/users", "a-secret-key", "1").await;
    assert_replay(&first, &one.post("/users", "a-secret-key", "1").await);
    assert!(!heard().contains("another operation"), "{}", heard());
    assert_replay(&first, &two.post("/users", "a-secret-key", "1").await);
    let log = heard();
    let warned = log.lines().find(|line| line.contains("another operation")).expect("a warning");
    assert!(
        warned.contains("WARN") && warned.contains("operation=\"refund\"") && warned.contains("recorded=\"pay\""),
        "{warned}"
    );
    assert!(!log.contains("a-secret-key"));
}

#[tokio::test]
async fn b72_requests_that_are_not_let_in_leave_nothing() {
    let service = Service::start(routes()).await;
    let mut socket = http::Connection::open(service.address()).await;
    for at in 0..10_000 {
        let key = format!("k{at}");
        let headers = match at % 2 {
            0 => [("authorization", "none"), (KEY, &*key)],
            _ => [("x-other", "1"), (KEY, &*key)],
        };
        socket.send(&http::request("POST", "/pay", &headers, "1")).await;
        assert_eq!(socket.response().await.status, 401);
    }
    assert_eq!(service.counts().await, (0, 0, 0));
}
