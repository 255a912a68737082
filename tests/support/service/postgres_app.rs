//! The service on PostgreSQL, on a socket, and the questions that a test asks it.

use std::sync::Arc;

use axum::{
    Router,
    extract::Request,
    middleware::{Next, from_fn},
    response::Response,
    routing::post,
};
use idem_runtime::{Builder, Idempotency, recovery::SweepReport};
use sqlx::{Executor, PgPool, Postgres as Db};
use tokio::sync::Semaphore;

use super::{
    App, Probe,
    orders::{act, order},
};
use crate::{
    assertions::code,
    databases::Postgres,
    http::{self, RawResponse, Server},
    soon,
};

/// The handlers with external effects, on this database.
#[path = "charge.rs"]
pub mod charge;

const TABLES: &str = "\
    CREATE TABLE effects ( \
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, account text NOT NULL, mark text NOT NULL, \
        once text CONSTRAINT effects_once UNIQUE, \
        late text CONSTRAINT effects_late UNIQUE DEFERRABLE INITIALLY DEFERRED)";

/// The running service.
pub struct Service {
    pub probe: Probe,
    pub pool: PgPool,
    pub idempotency: Idempotency<Db>,
    server: Server,
    /// One permit for each request that was dropped before it had its response.
    abandoned: Arc<Semaphore>,
}

impl Service {
    /// On a new database, with the defaults and a new pool.
    pub async fn start(database: &Postgres) -> Self {
        Self::start_with(database, database.pool(4).await, |builder| builder).await
    }

    /// Through a given pool (of a proxy, of another role, of another size), with options.
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
        let (probe, abandoned) = (Probe::default(), Arc::new(Semaphore::new(0)));
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

    /// Sends an order to a handler with external effects: `/charge`, `/brief`, `/doubt`.
    pub async fn charge(&self, path: &str, key: &str, act: &str) -> RawResponse {
        http::post(self.address(), path, &[("x-account", "ada"), ("idempotency-key", key)], order(key, act)).await
    }

    /// The same, without waiting for the response.
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

    /// Sends an order, without waiting for the response.
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
