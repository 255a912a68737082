//! B100: the transaction in each of its types, and handed to each kind of helper.
//! Helpers written for a pool's connection serve as they are.

use axum::{http::StatusCode, routing::post};
use idem_runtime::idempotent;
use sqlx::{Acquire, Executor, PgConnection, Postgres, Sqlite, SqliteConnection, Transaction, pool::PoolConnection};

use super::common::{Account, Routes, assert_send};

async fn by_connection(connection: &mut PgConnection) -> sqlx::Result<i64> {
    sqlx::query_scalar("SELECT 1").fetch_one(connection).await
}

async fn by_executor<'c>(executor: impl Executor<'c, Database = Postgres>) -> sqlx::Result<i64> {
    sqlx::query_scalar("SELECT 1").fetch_one(executor).await
}

/// `Send` is promised here, where `'c` is known: rustc cannot find it out of an `async fn` over `Acquire`,
/// neither in a handler nor in any other spawned future.
#[allow(clippy::manual_async_fn, reason = "it is not the same, as said above")]
fn by_acquire<'c, A>(acquire: A) -> impl Future<Output = sqlx::Result<i64>> + Send + 'c
where
    A: Acquire<'c, Database = Postgres> + Send + 'c,
{
    async move {
        let mut connection = acquire.acquire().await?;
        by_connection(&mut connection).await
    }
}

fn status(result: sqlx::Result<i64>) -> StatusCode {
    result.map_or(StatusCode::INTERNAL_SERVER_ERROR, |_| StatusCode::OK)
}

#[idempotent(scope = account)]
async fn postgres_connection(tx: &mut PgConnection, account: Account) -> StatusCode {
    let _ = account;
    let first = by_connection(tx).await;
    let second = by_executor(&mut *tx).await;
    let third = by_acquire(&mut *tx).await;
    let fourth = async {
        let mut nested = sqlx::Connection::begin(&mut *tx).await?;
        let one = by_connection(&mut nested).await?;
        nested.commit().await?;
        Ok(one)
    };
    let fourth = assert_send(fourth).await;
    status(first.and(second).and(third).and(fourth))
}

#[idempotent(scope = account)]
async fn postgres_transaction(tx: &mut Transaction<'_, Postgres>, account: Account) -> StatusCode {
    let _ = account;
    let first = by_connection(tx).await;
    let second = by_executor(&mut **tx).await;
    let third = async {
        let mut nested = sqlx::Acquire::begin(&mut *tx).await?;
        by_connection(&mut nested).await
    };
    let third = third.await;
    status(first.and(second).and(third))
}

#[idempotent(scope = account)]
async fn sqlite_connection(tx: &mut SqliteConnection, account: Account) -> StatusCode {
    let _ = account;
    status(sqlx::query_scalar("SELECT 1").fetch_one(tx).await)
}

#[idempotent(scope = account)]
async fn sqlite_transaction(tx: &mut Transaction<'_, Sqlite>, account: Account) -> StatusCode {
    let _ = account;
    status(sqlx::query_scalar("SELECT 1").fetch_one(&mut **tx).await)
}

type Tx<'t> = Transaction<'t, Sqlite>;

#[idempotent(scope = account)]
async fn aliased(tx: &mut Tx<'_>, account: Account) -> StatusCode {
    let _ = account;
    status(sqlx::query_scalar("SELECT 1").fetch_one(&mut **tx).await)
}

/// What a helper takes that is also called outside of a handler.
async fn _elsewhere(mut pooled: PoolConnection<Postgres>) -> sqlx::Result<i64> {
    by_connection(&mut pooled).await
}

#[test]
fn all_are_handlers() {
    let routes = Routes::new()
        .route("/1", post(postgres_connection))
        .route("/2", post(postgres_transaction))
        .route("/4", post(sqlite_connection))
        .route("/5", post(sqlite_transaction))
        .route("/6", post(aliased));
    assert!(routes.has_routes());
}
