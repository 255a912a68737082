//! Tables and locks that the service may not have, and locks that it waits for.
//! The answer comes in bounded time, and the connection is left in no transaction.

use super::*;

#[tokio::test]
async fn b53_a_table_without_permission_runs_nothing() {
    let database = postgres().await;
    prepare(&database).await;
    let mut outside = database.connect().await;
    // No superuser, and no role of ours to clean up: one that every server has.
    let all = "GRANT ALL ON ALL TABLES IN SCHEMA public TO pg_monitor";
    outside.execute(all).await.unwrap();
    let pool = database.pool_with(2, database.options().options([("role", "pg_monitor")])).await;
    let service = Service::join(pool, |builder| builder).await;
    assert_ran(&service.send("before", "write").await);
    for (number, missing) in ["INSERT", "UPDATE", "SELECT"].into_iter().enumerate() {
        let key = format!("k{number}");
        let revoke = format!("REVOKE {missing} ON idem_records FROM pg_monitor");
        outside.execute(sqlx::AssertSqlSafe(revoke)).await.unwrap();
        assert_problem(&service.send(&key, "write").await, 500, "idempotency-schema");
        assert_eq!(service.runs(), number + 1, "{missing}");
        outside.execute(all).await.unwrap();
        assert_ran(&service.send(&key, "write").await);
    }
    assert_replayed(&service.send("before", "write").await);
}

#[tokio::test]
async fn b46_locks_that_fail_leave_a_connection_in_no_transaction() {
    let database = postgres().await;
    prepare(&database).await;
    let mut outside = database.connect().await;
    outside.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO pg_monitor").await.unwrap();
    let pool = database.pool_with(1, database.options().options([("role", "pg_monitor")])).await;
    let service = Service::join(pool, |builder| builder).await;
    let locks = "FUNCTION pg_advisory_xact_lock_shared(bigint)";
    outside.execute(sqlx::AssertSqlSafe(format!("REVOKE EXECUTE ON {locks} FROM PUBLIC"))).await.unwrap();
    for _ in 0..3 {
        assert_problem(&service.send("k", "write").await, 500, "idempotency-schema");
        sqlx::query("SELECT 1").execute(&service.pool).await.expect("an ordinary query on the same connection");
        no_session(&database, "state LIKE 'idle in transaction%'").await;
    }
    outside.execute(sqlx::AssertSqlSafe(format!("GRANT EXECUTE ON {locks} TO PUBLIC"))).await.unwrap();
    assert_ran(&service.send("k", "write").await);
}

#[tokio::test]
async fn b53_a_locked_table_is_not_waited_for_without_end() {
    let database = postgres().await;
    let service = impatient(&database, database.pool(2).await).await;
    assert_ran(&service.send("before", "write").await);
    let mut outside = database.connect().await;
    let mut migration = outside.begin().await.unwrap();
    migration.execute("LOCK TABLE idem_records IN ACCESS EXCLUSIVE MODE").await.unwrap();
    for _ in 0..4 {
        assert_problem(&bounded(service.send("k", "write")).await, 503, UNAVAILABLE);
    }
    assert_eq!(service.runs(), 1);
    migration.rollback().await.unwrap();
    assert_ran(&service.retry("k", "write").await);
    assert_replayed(&service.send("before", "write").await);
    no_session(&database, "state LIKE 'idle in transaction%'").await;
}

#[tokio::test]
async fn b53_a_lock_timeout_of_the_servers_is_a_503() {
    let database = postgres().await;
    let pool = database.pool_with(2, database.options().options([("lock_timeout", "20ms")])).await;
    let service = Service::start_with(&database, pool, |builder| builder).await;
    let mut outside = database.connect().await;
    let mut migration = outside.begin().await.unwrap();
    migration.execute("LOCK TABLE idem_records IN ACCESS EXCLUSIVE MODE").await.unwrap();
    assert_problem(&bounded(service.send("k", "write")).await, 503, UNAVAILABLE);
    assert_eq!(service.runs(), 0);
    migration.rollback().await.unwrap();
    assert_ran(&service.send("k", "write").await);
}
