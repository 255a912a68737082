//! The service on a SQLite file: the handlers with external effects alone.
//! SQLite has one writer at a time; a running attempt does not hold it.

use axum::Router;
use idem_runtime::{Builder, Idempotency, recovery::SweepReport};
use sqlx::{Executor, Sqlite as Db, SqlitePool};

use super::{App, Probe, orders::order};
use crate::http::{self, RawResponse, Server};

/// The handlers with external effects, on this database.
#[path = "charge.rs"]
pub mod charge;

pub struct Service {
    pub probe: Probe,
    pub pool: SqlitePool,
    pub idempotency: Idempotency<Db>,
    server: Server,
}

impl Service {
    pub async fn start(pool: SqlitePool) -> Self {
        Self::start_with(pool, |builder| builder).await
    }

    pub async fn start_with(pool: SqlitePool, options: impl FnOnce(Builder<Db>) -> Builder<Db>) -> Self {
        pool.execute("CREATE TABLE IF NOT EXISTS effects (account TEXT NOT NULL, mark TEXT NOT NULL)").await.unwrap();
        Idempotency::builder(pool.clone()).build().migrate().await.unwrap();
        Self::join(pool, options).await
    }

    pub async fn join(pool: SqlitePool, options: impl FnOnce(Builder<Db>) -> Builder<Db>) -> Self {
        let app = App { idempotency: options(Idempotency::builder(pool.clone())).build(), probe: Probe::default() };
        let router = Router::new().merge(charge::routes()).with_state(app.clone());
        Self { probe: app.probe, pool, idempotency: app.idempotency, server: Server::start(router).await }
    }

    pub fn address(&self) -> std::net::SocketAddr {
        self.server.address()
    }

    pub async fn charge(&self, path: &str, key: &str, act: &str) -> RawResponse {
        let headers = [("x-account", "ada"), ("idempotency-key", key)];
        http::post(self.server.address(), path, &headers, order(key, act)).await
    }

    pub fn begin_charge(
        &self,
        path: &'static str,
        key: &'static str,
        act: &'static str,
    ) -> tokio::task::JoinHandle<RawResponse> {
        let address = self.server.address();
        let headers = [("x-account", "ada"), ("idempotency-key", key)];
        tokio::spawn(async move { http::post(address, path, &headers, order(key, act)).await })
    }

    pub async fn sweep(&self) -> SweepReport {
        charge::recovery(&self.idempotency, &self.probe.network).sweep().await.expect("a sweep")
    }

    pub async fn count(&self, what: &str) -> i64 {
        let sql = sqlx::AssertSqlSafe(format!("SELECT count(*) FROM {what}"));
        sqlx::query_scalar(sql).fetch_one(&self.pool).await.unwrap()
    }

    /// Rows, records, and records in progress.
    pub async fn counts(&self) -> (i64, i64, i64) {
        let in_progress = self.count("idem_records WHERE attempt IS NOT NULL").await;
        (self.count("effects").await, self.count("idem_records").await, in_progress)
    }
}
