//! The proxy: it cuts, holds, freezes and delays at the statement that a test names.
//! Each test looks at the database from outside the proxy.

use crate::*;

#[tokio::test]
async fn a_cut_before_a_statement_keeps_it_from_the_server() {
    let database = postgres().await;
    let proxy = Proxy::start(&database).await;
    let pool = database.pool_with(1, proxy.options(&database)).await;
    table(&pool).await;
    insert_and_commit(&pool, 1).await.unwrap();

    let trap = proxy.cut(Cut::Before, "COMMIT");
    insert_and_commit(&pool, 2).await.unwrap_err();
    trap.sprung().await;
    assert_eq!(rows(&database).await, 1);
    insert_and_commit(&pool, 3).await.expect("a trap acts once");
}

#[tokio::test]
async fn a_cut_after_a_statement_keeps_only_its_answer() {
    let database = postgres().await;
    let proxy = Proxy::start(&database).await;
    let pool = database.pool_with(1, proxy.options(&database)).await;
    table(&pool).await;

    let trap = proxy.cut(Cut::After, "COMMIT");
    insert_and_commit(&pool, 1).await.unwrap_err();
    trap.sprung().await;
    assert_eq!(rows(&database).await, 1);
}

#[tokio::test]
async fn a_prepared_statement_is_met_where_it_runs() {
    let database = postgres().await;
    let proxy = Proxy::start(&database).await;
    let pool = database.pool_with(1, proxy.options(&database)).await;
    table(&pool).await;

    for (id, cut) in [(1, Cut::Before), (2, Cut::After)] {
        // Prepared on this connection, so that the second time only binds it.
        insert_and_commit(&pool, id).await.unwrap();
        let trap = proxy.cut(cut, "INSERT INTO t");
        let mut log = StatementLog::start(&database).await;
        insert_and_commit(&pool, id + 10).await.unwrap_err();
        trap.sprung().await;
        let ran = log.statements().await.iter().any(|sql| sql.starts_with("INSERT"));
        assert_eq!(ran, cut == Cut::After);
    }
    assert_eq!(rows(&database).await, 2);
}

#[tokio::test]
async fn a_held_statement_waits_for_its_release() {
    let database = postgres().await;
    let proxy = Proxy::start(&database).await;
    let pool = database.pool_with(1, proxy.options(&database)).await;
    table(&pool).await;

    let trap = proxy.hold("COMMIT");
    let work = tokio::spawn(async move { insert_and_commit(&pool, 1).await });
    trap.sprung().await;
    assert_eq!(rows(&database).await, 0);
    assert!(!work.is_finished());
    trap.release();
    soon("the commit", work).await.unwrap().unwrap();
    assert_eq!(rows(&database).await, 1);
}

#[tokio::test]
async fn a_held_answer_waits_for_its_release() {
    let database = postgres().await;
    let proxy = Proxy::start(&database).await;
    let pool = database.pool_with(1, proxy.options(&database)).await;
    table(&pool).await;
    // Prepared on this connection, so that the second time only binds it.
    insert_and_commit(&pool, 1).await.unwrap();

    for (id, text) in [(2, "INSERT INTO t"), (3, "COMMIT")] {
        let trap = proxy.hold_answer(text);
        let pool = pool.clone();
        let work = tokio::spawn(async move { insert_and_commit(&pool, id).await });
        trap.sprung().await;
        // The server has run it; of an INSERT the others see nothing before its COMMIT.
        assert_eq!(rows(&database).await, i64::from(id) - i64::from(text != "COMMIT"));
        assert!(!work.is_finished());
        trap.release();
        soon("the commit", work).await.unwrap().unwrap();
        assert_eq!(rows(&database).await, i64::from(id));
    }
}

#[tokio::test]
async fn all_connections_are_cut_at_once() {
    let database = postgres().await;
    let proxy = Proxy::start(&database).await;
    let pool = database.pool_with(2, proxy.options(&database)).await;
    let (mut one, mut other) = (pool.acquire().await.unwrap(), pool.acquire().await.unwrap());
    proxy.cut_all().await;
    assert!(one.execute("SELECT 1").await.is_err());
    assert!(other.execute("SELECT 1").await.is_err());
    assert!(sqlx::PgConnection::connect_with(&proxy.options(&database)).await.is_ok());
}

#[tokio::test]
async fn the_network_can_freeze_and_thaw_and_go_down() {
    let database = postgres().await;
    let proxy = Proxy::start(&database).await;
    let options = proxy.options(&database);
    let mut open = sqlx::PgConnection::connect_with(&options).await.unwrap();

    proxy.set(Network::Frozen);
    let moment = Duration::from_millis(50);
    let mut answer = Box::pin(open.execute("SELECT 1"));
    assert!(timeout(moment, &mut answer).await.is_err(), "an answer from a frozen network");
    assert!(timeout(moment, sqlx::PgConnection::connect_with(&options)).await.is_err(), "a greeting");
    proxy.set(Network::Up);
    soon("the answer after the thaw", answer).await.unwrap();

    proxy.set(Network::Down);
    assert!(sqlx::PgConnection::connect_with(&options).await.is_err());
    open.ping().await.expect("an open connection lives on");
}

#[tokio::test]
async fn a_delay_is_felt_on_each_round_trip() {
    let database = postgres().await;
    let proxy = Proxy::start(&database).await;
    let mut connection = sqlx::PgConnection::connect_with(&proxy.options(&database)).await.unwrap();
    proxy.delay(Duration::from_millis(20));
    let start = std::time::Instant::now();
    for _ in 0..3 {
        connection.execute("SELECT 1").await.unwrap();
    }
    assert!(start.elapsed() >= Duration::from_millis(60));
}
