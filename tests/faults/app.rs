//! A small service on PostgreSQL whose one handler does what its request says, fails where it says, and can be held.
//! Its tables: `effects`, which only the handler writes, and idem's own.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
};

use axum::{
    Json, Router,
    extract::{FromRef, FromRequestParts, Request, State},
    http::{StatusCode, request::Parts},
    middleware::{Next, from_fn},
    response::{IntoResponse, Response},
    routing::post,
};
use idem_runtime::{Backend, Builder, Idempotency, Scope, ScopeId, StepKey, idempotent, recovery::SweepReport};
use serde::Deserialize;
use serde_json::{Value, json};
use sqlx::{Executor, PgConnection, PgPool, Postgres as Db};
use tokio::sync::Semaphore;

use crate::{
    charge,
    seen::code,
    support::{
        databases::Postgres,
        gate::{Gate, Runs},
        http::{self, RawResponse, Server},
        soon,
    },
};

const TABLES: &str = "\
    CREATE TABLE effects ( \
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, account text NOT NULL, mark text NOT NULL, \
        once text CONSTRAINT effects_once UNIQUE, \
        late text CONSTRAINT effects_late UNIQUE DEFERRABLE INITIALLY DEFERRED)";

const TEMPORARY: &str = "CREATE TEMPORARY TABLE idem_records (LIKE idem_records INCLUDING ALL) ON COMMIT DROP";

/// Whoever the header `x-account` names.
pub struct Account(pub String);

impl Scope for Account {
    fn scope_id(&self) -> ScopeId {
        ScopeId::new(&self.0)
    }
}

impl<S: Sync> FromRequestParts<S> for Account {
    type Rejection = StatusCode;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, StatusCode> {
        let account = parts.headers.get("x-account").and_then(|value| value.to_str().ok());
        account.map(|account| Self(account.to_owned())).ok_or(StatusCode::UNAUTHORIZED)
    }
}

/// Another system, which charges once for each key and remembers every call.
#[derive(Clone, Default)]
pub struct Network(Arc<Mutex<Vec<String>>>);

impl Network {
    pub fn charge(&self, key: StepKey) {
        self.0.lock().unwrap().push(key.to_string());
    }

    pub fn has(&self, key: StepKey) -> bool {
        self.0.lock().unwrap().contains(&key.to_string())
    }

    pub fn calls(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    pub fn charges(&self) -> usize {
        self.calls().into_iter().collect::<HashSet<_>>().len()
    }
}

/// What a test and the handler share.
#[derive(Clone)]
pub struct Probe {
    pub runs: Runs,
    pub gate: Gate,
    pub network: Network,
}

impl Probe {
    pub fn new() -> Self {
        Self { runs: Runs::default(), gate: Gate::new(), network: Network::default() }
    }
}

/// What the handler is to do, after it has written its row.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    Write,
    /// Wait at the gate.
    Wait,
    /// Wait at the gate, then run one more statement.
    WaitThenRead,
    /// Write the value that only one row may have; say so if another has it.
    Once,
    /// Write it, and let the database find out at COMMIT.
    Late,
    /// A statement that fails, then one that would not; both results are ignored.
    SwallowFirst,
    /// The failing statement is the very last.
    SwallowLast,
    /// A helper that logs the failure and goes on.
    SwallowInHelper,
    /// End the transaction and begin one that looks like it, then decline.
    Restart,
    /// Make idem's table mean that of another schema, by the path or by a temporary one.
    OtherSchema,
    TemporaryTable,
    Decline,
    Panic,
}

#[derive(Deserialize)]
pub struct Order {
    pub act: Act,
    pub mark: String,
}

#[derive(Debug, thiserror::Error)]
pub enum Failed {
    #[error("the database failed")]
    Database(#[from] sqlx::Error),
    #[error("declined")]
    Declined,
    #[error("taken")]
    Taken,
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        let status = match self {
            Self::Database(_) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Declined => StatusCode::PAYMENT_REQUIRED,
            Self::Taken => StatusCode::CONFLICT,
        };
        (status, Json(json!({ "failed": self.to_string() }))).into_response()
    }
}

/// The state, on either database.
pub struct App<Db: Backend> {
    pub idempotency: Idempotency<Db>,
    pub probe: Probe,
}

impl<Db: Backend> Clone for App<Db> {
    fn clone(&self) -> Self {
        Self { idempotency: self.idempotency.clone(), probe: self.probe.clone() }
    }
}

impl<Db: Backend> FromRef<App<Db>> for Idempotency<Db> {
    fn from_ref(app: &App<Db>) -> Self {
        app.idempotency.clone()
    }
}

impl<Db: Backend> FromRef<App<Db>> for Probe {
    fn from_ref(app: &App<Db>) -> Self {
        app.probe.clone()
    }
}

#[idempotent(scope = account)]
async fn act(
    account: Account,
    State(probe): State<Probe>,
    tx: &mut PgConnection,
    Json(order): Json<Order>,
) -> Result<(StatusCode, Json<Value>), Failed> {
    probe.runs.begin();
    let effect: i64 = sqlx::query_scalar("INSERT INTO effects (account, mark) VALUES ($1, $2) RETURNING id")
        .bind(&account.0)
        .bind(&order.mark)
        .fetch_one(&mut *tx)
        .await?;
    match order.act {
        Act::Write => {}
        Act::Wait => probe.gate.pass().await,
        Act::WaitThenRead => {
            probe.gate.pass().await;
            tx.execute("SELECT 'after the gate'").await?;
        }
        Act::Once => {
            match tx.execute("UPDATE effects SET once = 'the one' WHERE id = (SELECT max(id) FROM effects)").await {
                Err(sqlx::Error::Database(error)) if error.constraint() == Some("effects_once") => {
                    return Err(Failed::Taken);
                }
                other => {
                    other?;
                }
            }
        }
        Act::Late => {
            tx.execute("UPDATE effects SET late = 'body-secret'").await?;
        }
        Act::SwallowFirst => {
            drop(tx.execute("SELECT 1 FROM no_such_table").await);
            drop(tx.execute("SELECT 1").await);
        }
        Act::SwallowLast => drop(tx.execute("SELECT 1 FROM no_such_table").await),
        Act::SwallowInHelper => audit(tx).await,
        Act::Restart => {
            tx.execute("COMMIT; BEGIN; SAVEPOINT idem_claim").await?;
            return Err(Failed::Declined);
        }
        Act::OtherSchema => {
            tx.execute("SET LOCAL search_path = tenant, public").await?;
        }
        Act::TemporaryTable => {
            tx.execute(TEMPORARY).await?;
        }
        Act::Decline => return Err(Failed::Declined),
        Act::Panic => panic!("as asked"),
    }
    Ok((StatusCode::CREATED, Json(json!({ "effect": effect }))))
}

async fn audit(tx: &mut PgConnection) {
    if let Err(error) = tx.execute("INSERT INTO no_such_audit_log VALUES (1)").await {
        tracing::warn!(%error, "not audited");
    }
}

/// The running service.
pub struct Service {
    pub probe: Probe,
    pub pool: PgPool,
    pub idempotency: Idempotency<Db>,
    server: Server,
    /// One permit for each request that was dropped before it had its answer.
    abandoned: Arc<Semaphore>,
}

impl Service {
    /// On a new database, with the defaults and a pool of its own.
    pub async fn start(database: &Postgres) -> Self {
        Self::start_with(database, database.pool(4).await, |builder| builder).await
    }

    /// Through a pool of one's own (of a proxy, of another role, of another size), with options.
    pub async fn start_with(
        database: &Postgres,
        pool: PgPool,
        options: impl FnOnce(Builder<Db>) -> Builder<Db>,
    ) -> Self {
        prepare(database).await;
        Self::join(pool, options).await
    }

    /// A second process' worth of service on a database that has one.
    pub async fn join(pool: PgPool, options: impl FnOnce(Builder<Db>) -> Builder<Db>) -> Self {
        let idempotency = options(Idempotency::builder(pool.clone())).build();
        let (probe, abandoned) = (Probe::new(), Arc::new(Semaphore::new(0)));
        let app = App { idempotency: idempotency.clone(), probe: probe.clone() };
        let watched = Arc::clone(&abandoned);
        let router = Router::new()
            .route("/act", post(act).put(act))
            .merge(charge::routes())
            .with_state(app)
            .layer(from_fn(move |request: Request, next: Next| watch(Arc::clone(&watched), request, next)));
        Self { probe, pool, idempotency, server: Server::start(router).await, abandoned }
    }

    pub fn address(&self) -> std::net::SocketAddr {
        self.server.address()
    }

    pub fn runs(&self) -> usize {
        self.probe.runs.count()
    }

    /// Sends an order; the row it writes is marked with the key.
    pub async fn send(&self, key: &str, act: &str) -> RawResponse {
        self.send_as("ada", key, act).await
    }

    pub async fn send_as(&self, account: &str, key: &str, act: &str) -> RawResponse {
        http::post(self.address(), "/act", &[("x-account", account), ("idempotency-key", key)], order(key, act)).await
    }

    /// Sends an order to a handler with effects elsewhere: `/charge`, `/brief`, `/doubt`.
    pub async fn charge(&self, path: &str, key: &str, act: &str) -> RawResponse {
        http::post(self.address(), path, &[("x-account", "ada"), ("idempotency-key", key)], order(key, act)).await
    }

    /// The same, and leaves the answer to come.
    pub fn begin_charge(&self, path: &'static str, key: &str, act: &str) -> tokio::task::JoinHandle<RawResponse> {
        let (address, key, order) = (self.address(), key.to_owned(), order(key, act));
        tokio::spawn(async move {
            http::post(address, path, &[("x-account", "ada"), ("idempotency-key", &key)], order).await
        })
    }

    /// Decides what is dead at this moment, by the network of this service.
    pub async fn sweep(&self) -> SweepReport {
        charge::recovery(&self.idempotency, &self.probe.network).sweep().await.expect("a sweep")
    }

    /// Sends an order, and the same again as long as it is said to run still: what a client does. A session whose
    /// connection was cut holds its key until the server has noticed.
    pub async fn retry(&self, key: &str, act: &str) -> RawResponse {
        let retried = async {
            loop {
                let response = self.send(key, act).await;
                if code(&response) != Some("in-progress".to_owned()) {
                    return response;
                }
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        };
        soon("a key to be free", retried).await
    }

    /// Sends an order and leaves the answer to come.
    pub fn begin(&self, key: &str, act: &str) -> tokio::task::JoinHandle<RawResponse> {
        let (address, key, order) = (self.address(), key.to_owned(), order(key, act));
        tokio::spawn(async move {
            http::post(address, "/act", &[("x-account", "ada"), ("idempotency-key", &key)], order).await
        })
    }

    /// Waits until one more request was dropped because its client had gone.
    pub async fn abandoned(&self) {
        soon("a request to be dropped", self.abandoned.acquire()).await.expect("never closed").forget();
    }
}

async fn watch(abandoned: Arc<Semaphore>, request: Request, next: Next) -> Response {
    struct Watch(Option<Arc<Semaphore>>);
    impl Drop for Watch {
        fn drop(&mut self) {
            if let Some(abandoned) = self.0.take() {
                abandoned.add_permits(1);
            }
        }
    }
    let mut watch = Watch(Some(abandoned));
    let response = next.run(request).await;
    watch.0 = None;
    response
}

/// Creates the tables, by a connection that nothing breaks.
pub async fn prepare(database: &Postgres) {
    let pool = database.pool(1).await;
    pool.execute(TABLES).await.expect("the tables");
    Idempotency::builder(pool.clone()).build().migrate().await.expect("idem's tables");
    pool.close().await;
}

/// The body of an order.
pub fn order(mark: &str, act: &str) -> String {
    json!({ "act": act, "mark": mark }).to_string()
}

/// The bytes of an order on a socket.
pub fn request(key: &str, act: &str) -> Vec<u8> {
    http::request("POST", "/act", &[("x-account", "ada"), ("idempotency-key", key)], order(key, act))
}
