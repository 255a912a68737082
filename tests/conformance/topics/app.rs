//! The application under test: an account by `Authorization`, a table of payments, a few annotated handlers.
//! `Service` serves a router on its own database; every test checks its `counts` at the end.

use std::{net::SocketAddr, sync::Arc, task::Poll};

use axum::{
    Router,
    body::Bytes,
    extract::{FromRef, FromRequestParts, State},
    http::{StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
    routing::post,
};
use futures_util::future::join_all;
use idem_runtime::{Builder, Idempotency, Scope, ScopeId, idempotent};
use idem_tests::{
    gate::{Gate, Runs},
    http::{self, Connection as Socket, RawResponse, Server},
    network::Network,
};
use sqlx::Pool;
use tokio::{sync::Barrier, task::JoinHandle};

use super::{AGE, Connection, Database, Db, PAYMENTS, fresh};

#[derive(Clone)]
pub struct App {
    pub idempotency: Idempotency<Db>,
    /// Executions of handler bodies, which no rollback undoes.
    pub runs: Runs,
    pub gate: Gate,
    pub network: Network,
    /// The response of the handler `say`.
    pub answer: Arc<dyn Fn() -> Response + Send + Sync>,
}

impl FromRef<App> for Idempotency<Db> {
    fn from_ref(app: &App) -> Self {
        app.idempotency.clone()
    }
}

/// `Authorization: Bearer ACCOUNT`, or `REALM/ACCOUNT`; what follows a dot is the token's and not the account's.
pub struct Account(pub String);

impl<S: Send + Sync> FromRequestParts<S> for Account {
    type Rejection = (StatusCode, &'static str);

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let authorization = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = authorization.and_then(|value| value.strip_prefix("Bearer "));
        let token = token.ok_or((StatusCode::UNAUTHORIZED, "who are you?"))?;
        Ok(Self(token.split('.').next().unwrap_or_default().to_owned()))
    }
}

impl Scope for Account {
    fn scope_id(&self) -> ScopeId {
        match self.0.split_once('/') {
            Some((realm, account)) => ScopeId::new(realm).and(account),
            None if self.0 == "nobody" => ScopeId::new(""),
            None => ScopeId::new(&self.0),
        }
    }
}

/// Writes a row in the handler's transaction.
pub async fn write(tx: &mut Connection, account: &Account) {
    let insert = sqlx::query("INSERT INTO payments (account) VALUES ($1)").bind(&account.0);
    insert.execute(tx).await.expect("a written row");
}

/// Writes a row and says which run this is, so that a replay cannot be taken for a run.
#[idempotent(scope = account)]
pub async fn pay(tx: &mut Connection, State(app): State<App>, account: Account, _: Bytes) -> (StatusCode, String) {
    app.runs.begin();
    write(tx, &account).await;
    (StatusCode::CREATED, format!("run {} for {}", app.runs.count(), account.0))
}

/// The same with another name and without a body extractor.
#[idempotent(scope = account)]
pub async fn refund(tx: &mut Connection, State(app): State<App>, account: Account) -> (StatusCode, String) {
    app.runs.begin();
    write(tx, &account).await;
    (StatusCode::CREATED, format!("refund {} for {}", app.runs.count(), account.0))
}

/// Writes a row and waits at the gate.
#[idempotent(scope = account)]
pub async fn hold(tx: &mut Connection, State(app): State<App>, account: Account) -> (StatusCode, String) {
    app.runs.begin();
    write(tx, &account).await;
    app.gate.pass().await;
    (StatusCode::CREATED, format!("run {} for {}", app.runs.count(), account.0))
}

/// Writes a row and returns what the test chose.
#[idempotent(scope = account)]
pub async fn say(tx: &mut Connection, State(app): State<App>, account: Account) -> Response {
    app.runs.begin();
    write(tx, &account).await;
    (app.answer)()
}

/// A served application.
pub struct Service {
    pub app: App,
    pub pool: Pool<Db>,
    server: Server,
    pub database: Arc<Database>,
}

pub const ALICE: (&str, &str) = ("authorization", "Bearer alice");
pub const BOB: (&str, &str) = ("authorization", "Bearer bob");
pub const KEY: &str = "idempotency-key";

/// The defaults as they are.
pub fn plain(builder: Builder<Db>) -> Builder<Db> {
    builder
}

impl Service {
    /// Serves a router with idem's own defaults.
    pub async fn start(router: Router<App>) -> Self {
        Self::with(router, plain).await
    }

    /// Serves a router with an application's defaults.
    pub async fn with(router: Router<App>, defaults: impl FnOnce(Builder<Db>) -> Builder<Db>) -> Self {
        Self::of(router, 5, defaults, || StatusCode::OK.into_response()).await
    }

    /// Serves `say` with a response.
    pub async fn saying<R: IntoResponse>(answer: impl Fn() -> R + Send + Sync + 'static) -> Self {
        let answer = move || answer().into_response();
        Self::of(Router::new().route("/", post(say)), 5, plain, answer).await
    }

    /// Serves a router with everything chosen.
    pub async fn of(
        router: Router<App>,
        connections: u32,
        defaults: impl FnOnce(Builder<Db>) -> Builder<Db>,
        answer: impl Fn() -> Response + Send + Sync + 'static,
    ) -> Self {
        let database = fresh().await;
        let pool = database.pool(connections).await;
        Self::on(database, pool, router, defaults, answer).await
    }

    /// The same on a pool of the test's own.
    pub async fn on(
        database: Database,
        pool: Pool<Db>,
        router: Router<App>,
        defaults: impl FnOnce(Builder<Db>) -> Builder<Db>,
        answer: impl Fn() -> Response + Send + Sync + 'static,
    ) -> Self {
        let app = App {
            idempotency: defaults(Idempotency::builder(pool.clone())).build(),
            runs: Runs::default(),
            gate: Gate::new(),
            network: Network::default(),
            answer: Arc::new(answer),
        };
        app.idempotency.migrate().await.expect("a migrated database");
        sqlx::query(PAYMENTS).execute(&pool).await.expect("a table of payments");
        let server = Server::start(router.with_state(app.clone())).await;
        Self { app, pool, server, database: Arc::new(database) }
    }

    /// The same application again, as in another process: it has its own pool and shares nothing in memory.
    pub async fn beside(&self, router: Router<App>) -> Self {
        self.beside_with(router, plain).await
    }

    /// The same with an application's defaults.
    pub async fn beside_with(&self, router: Router<App>, defaults: impl FnOnce(Builder<Db>) -> Builder<Db>) -> Self {
        let pool = self.database.pool(5).await;
        let app = App { idempotency: defaults(Idempotency::builder(pool.clone())).build(), ..self.app.clone() };
        let server = Server::start(router.with_state(app.clone())).await;
        Self { app, pool, server, database: Arc::clone(&self.database) }
    }

    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Any request.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl AsRef<[u8]>,
    ) -> RawResponse {
        http::send(self.address(), method, path, headers, body).await
    }

    /// Alice's POST with a key.
    pub async fn post(&self, path: &str, key: &str, body: impl AsRef<[u8]>) -> RawResponse {
        self.send("POST", path, &[ALICE, (KEY, key)], body).await
    }

    /// Alice's POST with a key, under way.
    pub fn posting(&self, path: &'static str, key: &'static str, body: &'static str) -> JoinHandle<RawResponse> {
        let address = self.address();
        tokio::spawn(async move { http::post(address, path, &[ALICE, (KEY, key)], body).await })
    }

    /// Runs of bodies, rows that they wrote, records.
    pub async fn counts(&self) -> (usize, i64, i64) {
        let count = async |table| sqlx::query_scalar(table).fetch_one(&self.pool).await.expect("a count");
        let rows = count("SELECT count(*) FROM payments").await;
        (self.app.runs.count(), rows, count("SELECT count(*) FROM idem_records").await)
    }

    /// Makes every record so many seconds older.
    pub async fn age(&self, seconds: i64) {
        sqlx::query(AGE).bind(seconds).execute(&self.pool).await.expect("older records");
    }

    /// Runs a statement of the test's own.
    pub async fn execute(&self, sql: &'static str) {
        sqlx::query(sql).execute(&self.pool).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
}

/// Alice's requests, one a key, all sent at one moment.
pub async fn at_once(services: &[&Service], path: &str, keys: &[String]) -> Vec<RawResponse> {
    let requests = keys.iter().map(|key| http::request("POST", path, &[ALICE, (KEY, key)], "1"));
    all_at_once(services, requests.collect()).await
}

/// Many requests that a barrier releases at one moment, to the services in turn, on connections that are open already.
pub async fn all_at_once(services: &[&Service], requests: Vec<Vec<u8>>) -> Vec<RawResponse> {
    let barrier = Arc::new(Barrier::new(requests.len()));
    let requests = requests.into_iter().zip(services.iter().cycle()).map(|(request, service)| {
        let (barrier, address) = (Arc::clone(&barrier), service.address());
        async move {
            let mut socket = Socket::open(address).await;
            barrier.wait().await;
            socket.send(&request).await;
            socket.response().await
        }
    });
    join_all(requests).await
}

/// One of idem's own responses: a problem document with this code, unmarked, with `Retry-After` where a retry helps.
#[track_caller]
pub fn assert_problem(response: &RawResponse, status: u16, code: &str) {
    let got = (response.status, response.header("content-type"));
    assert_eq!(got, (status, Some("application/problem+json")), "{:?}", String::from_utf8_lossy(&response.body));
    let document = response.json();
    assert_eq!(document["code"], code);
    assert_eq!(document["type"], format!("urn:idem:problem:{code}"));
    assert_eq!(document["status"], status);
    assert!(document["title"].is_string() && document["detail"].is_string(), "{document}");
    assert_eq!(response.header("retry-after").is_some(), matches!(status, 409 | 503));
    assert!(response.all("idempotent-replayed").is_empty());
}

/// The first response again, byte for byte, and marked as a replay.
#[track_caller]
pub fn assert_replay(first: &RawResponse, again: &RawResponse) {
    assert!(first.all("idempotent-replayed").is_empty(), "the first answer is no replay: {first:?}");
    assert_eq!(again.all("idempotent-replayed"), [b"true"], "{again:?}");
    assert_eq!((first.status, &first.body), (again.status, &again.body));
    assert_eq!(lines(first), lines(again));
}

/// The header lines that a replay repeats.
fn lines(response: &RawResponse) -> Vec<(&str, String)> {
    let own = |name: &str| matches!(name, "date" | "idempotent-replayed");
    let lines = response.headers.iter().filter(|(name, _)| !own(&name.to_ascii_lowercase()));
    lines.map(|(name, value)| (name.as_str(), value.escape_ascii().to_string())).collect()
}

/// Polls a future this many times, then drops it, as a client that gives up at this point.
pub async fn cut<F: Future>(polls: usize, future: F) {
    let (mut future, mut left) = (Box::pin(future), polls);
    std::future::poll_fn(move |context| {
        left -= 1;
        if left == 0 || future.as_mut().poll(context).is_ready() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
