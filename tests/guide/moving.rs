//! Every order in which a first try and its retry can meet a node of release 1, of release 2 and of release 3.
//! A node of release 1 is its statements, as the chapter shows them.

use axum::{
    Extension, Router,
    body::{Body, to_bytes},
    http::{Request, StatusCode},
    routing::post,
};
use idem_runtime::Idempotency;
use idem_tests::{
    gate::{Gate, Runs},
    soon,
};
use sqlx::{AssertSqlSafe, Connection as _, Executor, Pool, Transaction, query::Query};
use tower::ServiceExt;

use super::{Connection, Db, NAME, fresh};
use crate::{MOVING, blocks};

mod bridge;

const ENDPOINT: &str = "POST /payments";

/// The chapter's statement that begins so.
fn statement(start: &str) -> String {
    blocks(MOVING, NAME).into_iter().find(|sql| sql.starts_with(start)).expect("a statement of the chapter")
}

/// A database with the old table, idem's and the service's own.
async fn service() -> (impl Drop, Pool<Db>, Idempotency<Db>, Runs) {
    let (database, pool) = fresh().await;
    pool.execute("CREATE TABLE payments (account BIGINT, amount BIGINT)").await.unwrap();
    pool.execute(AssertSqlSafe(statement("CREATE"))).await.unwrap();
    let idempotency = Idempotency::builder(pool.clone()).build();
    idempotency.migrate().await.unwrap();
    (Held(database), pool, idempotency, Runs::default())
}

/// Keeps a database to the end of its test.
struct Held<D>(#[allow(dead_code, reason = "held")] D);

impl<D> Drop for Held<D> {
    fn drop(&mut self) {}
}

/// A node's routes, of release 2 and of release 3.
fn node(idempotency: &Idempotency<Db>, runs: &Runs, gate: Option<&Gate>) -> Router {
    let router = Router::new().route("/payments", bridge::route().layer(Extension(runs.clone())));
    let router = match gate {
        Some(gate) => router.layer(Extension(gate.clone())),
        None => router,
    };
    router.with_state(idempotency.clone())
}

fn release_3(idempotency: &Idempotency<Db>, runs: &Runs) -> Router {
    let route = post(bridge::alone::create_payment).layer(Extension(runs.clone()));
    Router::new().route("/payments", route).with_state(idempotency.clone())
}

async fn send(node: Router) -> (StatusCode, bool, String) {
    let request = Request::post("/payments").header("idempotency-key", "k").header("content-type", "application/json");
    let response = node.oneshot(request.body(Body::from(r#"{"amount":5}"#)).unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    (parts.status, parts.headers.contains_key("idempotent-replayed"), String::from_utf8(body.into()).unwrap())
}

/// The key of a statement of release 1.
fn keyed(query: Query<'_, Db, <Db as sqlx::Database>::Arguments>) -> Query<'_, Db, <Db as sqlx::Database>::Arguments> {
    query.bind("k").bind(1_i64).bind(ENDPOINT)
}

/// Release 1 begins: whether the key is its own.
async fn old_claims(tx: &mut Transaction<'_, Db>) -> bool {
    let insert = statement("INSERT");
    keyed(sqlx::query(AssertSqlSafe(insert))).execute(&mut **tx).await.unwrap().rows_affected() == 1
}

/// The response of release 1 where it is not.
async fn old_answer(tx: &mut Transaction<'_, Db>) -> (Option<i32>, Option<String>) {
    let select = statement("SELECT status");
    let select = sqlx::query_as(AssertSqlSafe(select)).bind("k").bind(1_i64).bind(ENDPOINT);
    select.fetch_one(&mut **tx).await.unwrap()
}

/// Release 1 works, and stores its response.
async fn old_works(tx: &mut Transaction<'_, Db>) {
    sqlx::query("INSERT INTO payments (account, amount) VALUES (1, 5)").execute(&mut **tx).await.unwrap();
    let update = statement("UPDATE");
    let update = keyed(sqlx::query(AssertSqlSafe(update))).bind(201_i32).bind("of old");
    assert_eq!(update.execute(&mut **tx).await.unwrap().rows_affected(), 1);
}

async fn payments(pool: &Pool<Db>) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM payments").fetch_one(pool).await.unwrap()
}

#[tokio::test]
async fn what_release_1_has_done_is_replayed() {
    let (_database, pool, idempotency, runs) = service().await;
    let mut tx = pool.begin().await.unwrap();
    assert!(old_claims(&mut tx).await);
    old_works(&mut tx).await;
    tx.commit().await.unwrap();
    let old = |replayed| (StatusCode::CREATED, replayed, "of old".to_owned());
    assert_eq!(send(node(&idempotency, &runs, None)).await, old(false));
    assert_eq!(send(node(&idempotency, &runs, None)).await, old(true));
    assert_eq!(send(release_3(&idempotency, &runs)).await, old(true));
    assert_eq!((runs.count(), payments(&pool).await), (0, 1));
}

#[tokio::test]
async fn what_release_1_is_at_is_waited_for() {
    let (_database, pool, idempotency, runs) = service().await;
    let mut tx = pool.begin().await.unwrap();
    assert!(old_claims(&mut tx).await);
    let retry = tokio::spawn(send(node(&idempotency, &runs, None)));
    old_works(&mut tx).await;
    tx.commit().await.unwrap();
    let retry = soon("the retry", retry).await.unwrap();
    assert_eq!(retry, (StatusCode::CREATED, false, "of old".to_owned()));
    assert_eq!((runs.count(), payments(&pool).await), (0, 1));
}

#[tokio::test]
async fn what_release_1_gave_up_runs() {
    let (_database, pool, idempotency, runs) = service().await;
    let mut tx = pool.begin().await.unwrap();
    assert!(old_claims(&mut tx).await);
    let retry = tokio::spawn(send(node(&idempotency, &runs, None)));
    tx.rollback().await.unwrap();
    assert_eq!(soon("the retry", retry).await.unwrap().0, StatusCode::CREATED);
    assert_eq!((runs.count(), payments(&pool).await), (1, 1));
}

#[tokio::test]
async fn what_release_1_began_and_left_is_not_stored() {
    let (_database, pool, idempotency, runs) = service().await;
    let mut tx = pool.begin().await.unwrap();
    assert!(old_claims(&mut tx).await);
    tx.commit().await.unwrap();
    assert_eq!(send(node(&idempotency, &runs, None)).await.0, StatusCode::CONFLICT);
    // It ends after all.
    let mut tx = pool.begin().await.unwrap();
    old_works(&mut tx).await;
    tx.commit().await.unwrap();
    assert_eq!(send(node(&idempotency, &runs, None)).await, (StatusCode::CREATED, false, "of old".to_owned()));
    assert_eq!((runs.count(), payments(&pool).await), (0, 1));
}

#[tokio::test]
async fn release_1_finds_what_release_2_is_at_and_has_done() {
    let (_database, pool, idempotency, runs) = service().await;
    let gate = Gate::new();
    let first = tokio::spawn(send(node(&idempotency, &runs, Some(&gate))));
    gate.entered().await;
    let old = pool.clone();
    let retry = tokio::spawn(async move {
        let mut tx = old.begin().await.unwrap();
        assert!(!old_claims(&mut tx).await, "release 1 would run what release 2 is at");
        old_answer(&mut tx).await
    });
    gate.let_one_through();
    let (status, _, body) = soon("the first try", first).await.unwrap();
    assert_eq!(status, StatusCode::CREATED);
    assert_eq!(soon("the retry", retry).await.unwrap(), (Some(201), Some(body.clone())));
    // And release 3 finds it in idem's table.
    assert_eq!(send(release_3(&idempotency, &runs)).await, (StatusCode::CREATED, true, body));
    assert_eq!((runs.count(), payments(&pool).await), (1, 1));
}

/// What needs a value is run above.
#[tokio::test]
async fn every_statement_of_the_guide_runs() {
    let (_database, pool, _idempotency, _) = service().await;
    let mut connection = pool.acquire().await.unwrap();
    let mut ran = 0;
    for chapter in [
        include_str!("../../guide/src/operating.md"),
        include_str!("../../guide/src/retention.md"),
        include_str!("../../guide/src/testing.md"),
        MOVING,
    ] {
        let statements = blocks(chapter, NAME);
        for sql in statements.into_iter().filter(|sql| !sql.contains("$1") && !sql.starts_with("CREATE")) {
            connection.execute(AssertSqlSafe(sql.clone())).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
            ran += 1;
        }
    }
    assert_eq!(ran, 6);
    connection.ping().await.unwrap();
}
